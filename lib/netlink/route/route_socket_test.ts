import assert from "node:assert/strict";
import type { Bytes } from "../../linux/mod.ts";
import { AnsweringTransport, DONE } from "../testing.ts";
import { isFrom, RouteSocket } from "./route_socket.ts";

/** Counts what goes by another thread. */
class CountingTransport extends AnsweringTransport {
  offThread = 0;

  override sendOffThread(bytes: Bytes): Promise<void> {
    this.offThread++;
    return super.sendOffThread(bytes);
  }
}

Deno.test("isFrom() compares releases of Linux", () => {
  for (
    const [release, expected] of [
      ["5.4.0-216-generic", false],
      ["6.9.12", false],
      ["6.11", false],
      ["6.12.0", true],
      ["6.18.44-fc", true],
      ["7.0-rc1", true],
      ["unknown", false],
    ] as const
  ) {
    assert.equal(isFrom(release, [6, 12]), expected, release);
  }
});

Deno.test("RouteSocket asks for short lists on the calling thread, if the kernel needs no lock for them", async () => {
  const transport = new CountingTransport(() => [DONE]);
  using socket = RouteSocket.over(transport);
  const lists = async (options?: { readonly isShort: boolean }) => {
    transport.offThread = 0;
    await socket.listAddresses({}, options);
    await socket.listRules({}, options);
    await socket.listRoutes({ table: 500 }, options); // one of each family
    return transport.offThread;
  };
  assert.equal(await lists(), 4);
  const needsLock = !isFrom(Deno.osRelease(), [6, 12]);
  assert.equal(await lists({ isShort: true }), needsLock ? 4 : 0);
  await socket.listLinks();
  assert.equal(transport.offThread, needsLock ? 5 : 1);
});
