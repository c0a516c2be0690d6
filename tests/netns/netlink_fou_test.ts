import assert from "node:assert/strict";
import { Netns } from "../../lib/linux/mod.ts";
import { FouSocket, FouUnsupportedError } from "../../lib/netlink/mod.ts";
import { netnsTest, tempNetns } from "./testing.ts";

netnsTest("FouSocket says so where ip finds no FoU in the kernel", async () => {
  await using temp = await tempNetns();
  using netns = Netns.open(temp.path);
  using socket = FouSocket.open({ netns });
  const port = { family: "ipv4", port: 5555, protocol: 4 } as const;
  if ((await temp.tryExec("ip", "fou", "show")).code === 0) {
    await socket.add(port);
    assert.deepEqual(await socket.list(), [port]);
    return;
  }
  for (
    const ask of [
      () => socket.list(),
      () => socket.add(port),
      () => socket.delete(port),
    ]
  ) {
    await assert.rejects(
      ask,
      (error) =>
        error instanceof FouUnsupportedError &&
        error.message.includes('load its modules "fou" and "fou6"'),
    );
  }
});
