import assert from "node:assert/strict";
import {
  inNetns,
  LinuxError,
  Netns,
  readSysctl,
  writeSysctl,
} from "../../lib/linux/mod.ts";
import { RouteSocket } from "../../lib/netlink/mod.ts";
import { netnsTest, tempNetns } from "./testing.ts";

/** The namespace the main thread is in now, as the kernel shows it. */
function here(): string {
  return Deno.readLinkSync("/proc/thread-self/ns/net");
}

netnsTest("inNetns() runs the function inside and comes back", async () => {
  await using temp = await tempNetns();
  using netns = Netns.open(temp.path);
  const outside = here();
  const inside = inNetns(netns, here);
  assert.equal(inside, `net:[${netns.inode}]`);
  assert.notEqual(inside, outside);
  assert.equal(here(), outside);
  assert.equal(netns.isOwn, false);
});

netnsTest(
  "inNetns() comes back from a function that throws or returns a promise",
  async () => {
    await using temp = await tempNetns();
    using netns = Netns.open(temp.path);
    const outside = here();
    const boom = new Error("boom");
    assert.throws(() =>
      inNetns(netns, () => {
        throw boom;
      }), boom);
    assert.equal(here(), outside);
    assert.throws(() => inNetns(netns, async () => {}), TypeError);
    assert.equal(here(), outside);
  },
);

netnsTest("inNetns() can be nested", async () => {
  await using first = await tempNetns();
  await using second = await tempNetns();
  using a = Netns.open(first.path);
  using b = Netns.open(second.path);
  const outside = here();
  const seen = inNetns(a, () => [here(), inNetns(b, here), here()]);
  assert.deepEqual(seen, [a, b, a].map((netns) => `net:[${netns.inode}]`));
  assert.equal(here(), outside);
});

netnsTest("inNetns() ends the process when it cannot come back", async () => {
  await using temp = await tempNetns();
  // The child closes the descriptor of its own namespace behind inNetns()'s back.
  const script = `
    import { inNetns, Netns } from ${
    JSON.stringify(moduleUrl("lib/linux/mod.ts"))
  };
    import { closeFile } from ${JSON.stringify(moduleUrl("lib/linux/libc.ts"))};
    const netns = Netns.open(${JSON.stringify(temp.path)});
    const own = Deno.readLinkSync("/proc/self/ns/net");
    globalThis.addEventListener("unload", () => console.log("unload ran"));
    inNetns(netns, () => {
      for (const { name } of Deno.readDirSync("/proc/self/fd")) {
        let target = "";
        try { target = Deno.readLinkSync("/proc/self/fd/" + name); } catch { /* ENOENT */ }
        if (target === own) closeFile(Number(name));
      }
    });
    console.log("went on");
  `;
  const child = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-lock", "-"],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(script));
  await writer.close();
  const { code, signal, stdout, stderr } = await child.output();
  assert.equal(new TextDecoder().decode(stdout), "");
  assert.match(
    new TextDecoder().decode(stderr),
    /fatal: LinuxError: Cannot return to the former network namespace: setns returned EBADF/,
  );
  assert.equal(signal, "SIGABRT", `exit code ${code}`);
});

netnsTest(
  "writeSysctl() writes the namespace it is told, and no other",
  async () => {
    await using temp = await tempNetns();
    using netns = Netns.open(temp.path);
    const name = "net/ipv6/conf/default/accept_ra";
    const before = readSysctl(name);
    const other = before === "2" ? "0" : "2";
    writeSysctl(name, other, { netns });
    assert.equal(readSysctl(name, { netns }), other);
    assert.equal((await temp.exec("cat", `/proc/sys/${name}`)).trim(), other);
    assert.equal(readSysctl(name), before);
    assert.throws(() => writeSysctl(name, "nonsense", { netns }));
    assert.equal(readSysctl(name, { netns }), other);
  },
);

netnsTest(
  "RouteSocket.open() stays in its namespace, which may be closed and even deleted",
  async () => {
    let socket: RouteSocket;
    {
      await using temp = await tempNetns();
      using netns = Netns.open(temp.path);
      socket = RouteSocket.open({ netns });
      await temp.ip("link", "add", "marker", "type", "bridge");
    }
    using open = socket;
    const names = (await open.listLinks()).map((link) => link.name);
    assert.deepEqual(names.sort(), ["lo", "marker"]);
  },
);

netnsTest(
  "Netns keeps a namespace whose file is gone; opening the file left behind is refused",
  async () => {
    const temp = await tempNetns();
    using netns = Netns.open(temp.path);
    await temp[Symbol.asyncDispose]();
    assert.equal(inNetns(netns, here), `net:[${netns.inode}]`);
    assert.throws(
      () => Netns.open(temp.path),
      (error) => error instanceof LinuxError && error.code === "ENOENT",
    );
  },
);

function moduleUrl(path: string): string {
  return new URL(`../../${path}`, import.meta.url).href;
}
