import assert from "node:assert/strict";
import { coil } from "../../roles/cli/testing.ts";
import { vpcNode } from "../../lib/ipam/audit/testing.ts";
import { testedSessions } from "../arch/pages.ts";
import { awaitedLater, eventually, startCoilPlane } from "../lab/mod.ts";
import { coilCommand } from "./coild_lab.ts";
import { COIL_API } from "./crds.ts";
import { addPod, populate } from "./ipam_books.ts";
import { patchStatus } from "./patch_status.ts";

/** What the program itself writes to a terminal; `script` of bsdutils makes one. */
async function onTerminal(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const command = coilCommand(...args).join(" ");
  const { stdout } = await new Deno.Command("script", {
    args: ["-qec", command, "/dev/null"],
    env: { TERM: "xterm", ...env },
  }).output();
  return new TextDecoder().decode(stdout).replaceAll("\r\n", "\n");
}

Deno.test("coil ipam map draws a pool", async (t) => {
  await using plane = await startCoilPlane({ name: "ipammap" });
  const config = `--kubeconfig=${plane.kubeconfig}`;
  const map = (...args: readonly string[]) =>
    coil(["ipam", "map", ...args, config]);
  await populate(plane);
  const [session] = await testedSessions(
    "docs/roles/coil.md",
    import.meta.url,
  );
  const picture = session?.output ?? "";

  await t.step("the document shows what it prints", async () => {
    assert.equal(session?.command, "coil ipam map default");
    assert.deepEqual(await map("default"), { code: 0, out: picture, err: "" });
  });

  await t.step("-o json says who holds what; --node chooses", async () => {
    const { out } = await map("default", "-o", "json", "--node=node1");
    const { pool, blocks, outside } = JSON.parse(out);
    assert.equal(pool.name, "default");
    const [only, ...more] = blocks;
    assert.deepEqual([more, outside, only.name], [[], [], "default-0"]);
    const holders = only.addresses.map((
      { namespace, pod, ipv4, ipv6 }: Record<string, string>,
    ) => [`${namespace}/${pod}`, ipv4, ipv6]);
    assert.deepEqual(holders, [
      ["apps/web-1", "10.2.0.9", "fd02::9"],
      ["apps/web-2", "10.2.0.10", "fd02::a"],
    ]);
  });

  await t.step("a terminal gets colours, unless NO_COLOR is set", async () => {
    const args = ["ipam", "map", "default", config];
    const coloured = await onTerminal(args);
    assert.ok(coloured.includes("\u001b[1;31m!\u001b[0m"), coloured);
    // deno-lint-ignore no-control-regex
    assert.equal(coloured.replaceAll(/\u001b\[[\d;]*m/g, ""), picture);
    assert.equal(await onTerminal(args, { NO_COLOR: "1" }), picture);
  });

  await t.step("a pool that does not exist is an error", async () => {
    const { code, err } = await map("defualt");
    assert.equal(code, 1);
    assert.match(err, /"defualt": it does not exist \(existing: default/);
  });

  await t.step(
    "--watch draws again when a pod gets an address, and says when the API server is away",
    async () => {
      const stop = new AbortController();
      let written = { out: "", err: "" };
      const ended = awaitedLater(
        coil(["ipam", "map", "small", "--watch", config], {
          signal: stop.signal,
          onWrite: (all) => written = all,
        }),
      );
      const last = (expected: RegExp) =>
        eventually(
          `${expected}`,
          () => expected.test(written.out.split("AddressPool").at(-1) ?? ""),
        );
      try {
        await last(/ 1 of 32 used\n/);
        await addPod(plane, ["default", "second", "node1"], ["10.3.0.31"]);
        await last(/ 2 of 32 used\n.*·█\n/);
        await plane.killApiServer();
        await eventually(
          "its word on the API server",
          () =>
            /Cannot GET "\S+addresspools\S*" .*: the picture is old\n/.test(
              written.err,
            ),
        );
        await plane.startApiServer();
        await addPod(plane, ["default", "third", "node1"], ["10.3.0.30"]);
        await last(/ 3 of 32 used\n.*·██\n/);
      } finally {
        stop.abort();
      }
      const { code, out, err } = await ended;
      assert.equal(code, 0);
      assert.equal(err.split("is old").length, 2, err);
      // Not a screen: each picture once, one after the other, without control characters.
      assert.equal(out.split("AddressPool").length, 4, out);
      assert.ok(!out.includes("\u001b"));
    },
  );

  await t.step("--watch clears a screen before each picture", async () => {
    const stop = new AbortController();
    const { out } = await coil(["ipam", "map", "small", "--watch", config], {
      signal: stop.signal,
      isScreen: true,
      onWrite: () => stop.abort(),
    });
    assert.ok(out.startsWith("\u001b[H\u001b[2J\u001b[3JAddressPool small: "));
  });

  await t.step(
    "--watch draws the nodes of a VPC again when one gets an address",
    async () => {
      const { metadata: { name }, status, ...rest } = vpcNode("node1", [
        ["10.2.9.8/32"],
      ]);
      const object = { ...rest, metadata: { name } };
      await plane.apply(object);
      const grant = (blocks: readonly string[]) =>
        patchStatus(plane, `${COIL_API}/vpcnodes/${name}`, {
          ...status,
          enis: status?.enis?.map((eni) => ({ ...eni, blocks })),
        });
      await grant(["10.2.9.8/32"]);
      const stop = new AbortController();
      let written = "";
      const ended = awaitedLater(
        coil(["ipam", "map", "vpc", "--watch", config], {
          signal: stop.signal,
          onWrite: ({ out }) => written = out,
        }),
      );
      const last = (expected: RegExp) =>
        eventually(
          `${expected}`,
          () => expected.test(written.split("Pool vpc").at(-1) ?? ""),
        );
      try {
        await last(/device 0: subnet-1, 0 of 1 used\n/);
        await grant(["10.2.9.8/32", "10.2.9.9/32"]);
        await last(/device 0: subnet-1, 0 of 2 used\n/);
        await addPod(plane, ["default", "of-vpc", "node1"], ["10.2.9.9"]);
        await last(/device 0: subnet-1, 1 of 2 used\n.*·█\n/);
      } finally {
        stop.abort();
      }
      assert.equal((await ended).code, 0);
    },
  );

  await t.step("--watch ends when the pool is deleted", async () => {
    const drawn = Promise.withResolvers<void>();
    const ended = awaitedLater(
      coil(["ipam", "map", "small", "--watch", config], {
        onWrite: () => drawn.resolve(),
      }),
    );
    await drawn.promise;
    await plane.kubectl("delete", "addresspool", "small", "--wait=false");
    const { code, err } = await ended;
    assert.equal(code, 1);
    assert.match(err, /"small": it does not exist/);
  });
});
