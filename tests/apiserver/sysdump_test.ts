// coil sysdump: a real API server and a real coild in its node's network. There
// is no kubelet: for kubectl's exec there is a script that runs the command in
// the node's network, and logs cannot be had.
import assert from "node:assert/strict";
import { coil } from "../../roles/cli/testing.ts";
import { testedCommands } from "../arch/pages.ts";
import { eventually, run } from "../lab/mod.ts";
import { coilCommand, type Coild, CoildLab } from "./coild_lab.ts";
import { coildPod } from "./coild_pod.ts";
import { patchStatus } from "./patch_status.ts";

const PASSWORD = "hunter2-hunter2";

async function namesIn(directory: string): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(directory));
  return entries.map(({ name }) => name).sort();
}

/** A directory with a kubectl that reaches coild-1 alone, and hangs for others while there is a file "hang". */
async function fakeKubectl(directory: string, coild: Coild): Promise<void> {
  const { node, socketPath } = coild;
  await Deno.writeTextFile(
    `${directory}/kubectl`,
    `#!/bin/bash
case "$*" in
*" exec coild-1 "*) ;;
*) [ -e ${directory}/hang ] && exec sleep 60
   echo "error: no kubelet" >&2; exit 1 ;;
esac
while [ "$1" != -- ]; do shift; done
shift 2
exec nsenter --net=/run/netns/${node.netns} ${
      coilCommand().join(" ")
    } "$@" --socket=${socketPath}
`,
    { mode: 0o700 },
  );
}

/** A pod of coild's, as the kubelet reports it. */
async function addCoildPod(lab: CoildLab, n: number): Promise<void> {
  const path = "/api/v1/namespaces/kube-system/pods";
  const name = `coild-${n}`;
  const pod = coildPod({ name, node: `node${n}` }, {
    containers: [{
      name: "coild",
      image: "registry.acme.example/coil:1",
      env: [{ name: "PASSWORD", value: PASSWORD }],
      ports: [{ name: "metrics", containerPort: 9384, hostPort: 9384 }],
    }],
  });
  await lab.plane.request("POST", path, pod);
  await patchStatus(lab.plane, `${path}/${name}`, {
    phase: "Running",
    containerStatuses: [{
      name: "coild",
      ready: true,
      restartCount: 1,
      image: "coil:1",
      imageID: "",
      state: { running: { startedAt: "2026-06-01T00:00:00Z" } },
      lastState: { terminated: { exitCode: 1 } },
    }],
  });
}

Deno.test("coil sysdump writes what can be had into one archive, and says what is missing", async (t) => {
  await using lab = await CoildLab.start({ name: "sysdump", nodes: 2 });
  const { plane } = lab;
  await lab.createPool("acme-pool", [
    { ipv4: "10.100.0.0/24", ipv6: "fd02::100:0/120" },
  ]);
  await plane.createNamespace("shop");
  const annotation = "coil.cybozu.com/pool=acme-pool";
  await plane.kubectl("annotate", "namespace", "shop", annotation);
  await plane.kubectl(
    ...["-n", "kube-system", "create", "secret", "generic", "key"],
    `--from-literal=key=${PASSWORD}`,
  );
  await plane.request(
    "POST",
    "/apis/coil.cybozu.com/v2/namespaces/shop/egresses",
    {
      apiVersion: "coil.cybozu.com/v2",
      kind: "Egress",
      metadata: { name: "checkout" },
      spec: {
        destinations: ["203.0.113.0/24"],
        template: {
          spec: {
            containers: [{
              name: "egress",
              env: [{ name: "PASSWORD", value: PASSWORD }],
            }],
          },
        },
      },
    },
  );
  const [[command = ""] = []] = await testedCommands(
    "docs/roles/coil.md",
    import.meta.url,
  );
  lab.granter.start();
  await using coild = await lab.startCoild();
  const pod = await lab.createPod("shopfront", { namespace: "shop" });
  const addresses = await coild.addresses(pod);
  await eventually("the namespace's pool", () => addresses.length === 2);
  for (const n of [1, 2]) await addCoildPod(lab, n);
  // As kube-proxy in mode nftables calls its chains.
  await plane.kubectl(
    ...["-n", "shop", "create", "service", "clusterip", "till", "--tcp=80"],
  );
  await lab.node().run(
    "nft",
    `table ip kube-proxy {
      chain service-ULMVA6XW-shop/till/tcp/80 { ip saddr ${addresses[0]} drop; }
    }`,
  );

  await using stack = new AsyncDisposableStack();
  const directory = await Deno.makeTempDir();
  stack.defer(() => Deno.remove(directory, { recursive: true }));
  await fakeKubectl(directory, coild);
  const out = `${directory}/out`;
  const { signal } = new AbortController();
  await Deno.mkdir(out);

  const start = (...args: readonly string[]) => {
    const [command, ...first] = coilCommand(...args);
    return new Deno.Command(command, {
      args: [...first, `--kubeconfig=${plane.kubeconfig}`],
      cwd: out,
      env: { PATH: `${directory}:${Deno.env.get("PATH")}` },
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  };
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  /** What is in it by the path, without the archive's own directory. */
  const dump = async (command: string) => {
    const [, ...args] = command.split(" ");
    const { code, stdout, stderr } = await start(...args).output();
    assert.equal(code, 3, text(stderr));
    const [file = ""] = text(stdout).split(".tar.gz\n");
    await run("tar", ["-xzf", `${out}/${file}.tar.gz`, "-C", directory]);
    const listed = await run("find", [
      `${directory}/${file}`,
      ...["-type", "f", "-printf", "%P\n"],
    ]);
    const files = new Map<string, string>();
    for (const path of listed.trim().split("\n").sort()) {
      files.set(path, await Deno.readTextFile(`${directory}/${file}/${path}`));
    }
    return { files, err: text(stderr) };
  };
  const pools = (files: ReadonlyMap<string, string>, plural: string) =>
    JSON.parse(files.get(`objects/${plural}.json`) ?? "");

  await t.step(
    "objects, reports, and what coild says of its node",
    async () => {
      const { files, err } = await dump("coil sysdump -o whole.tar.gz");
      const { mode } = await Deno.stat(`${out}/whole.tar.gz`);
      assert.equal((mode ?? 0) & 0o777, 0o600);
      const own = "nodes/node1/kube-system/coild-1";
      assert.deepEqual([...files.keys()], [
        "SUMMARY.txt",
        "ipam_check.txt",
        `${own}/addresses.json`,
        `${own}/calls.json`,
        `${own}/ipam_check.txt`,
        `${own}/links.txt`,
        `${own}/metrics.txt`,
        `${own}/nft_tables.txt`,
        `${own}/routes.txt`,
        `${own}/rules.txt`,
        "objects/addressblocks.json",
        "objects/addresspools.json",
        "objects/blockrequests.json",
        "objects/configmaps.json",
        "objects/daemonsets.json",
        "objects/deployments.json",
        "objects/egressclientslices.json",
        "objects/egresses.json",
        "objects/events.json",
        "objects/leases.json",
        "objects/namespaces.json",
        "objects/nodes.json",
        "objects/pods.json",
        "objects/vpcnodes.json",
        "status.txt",
        "version.json",
      ]);
      const [ipv4 = "", ipv6 = ""] = addresses;
      const { table } = JSON.parse(files.get(`${own}/addresses.json`) ?? "");
      assert.deepEqual(table[0].addresses, [ipv4, ipv6]);
      assert.equal(files.get(`${own}/calls.json`), "[]\n");
      for (
        const [file, expected] of [
          [
            "routes.txt",
            new RegExp(`^ipv4 table 116: ${ipv4}/32 .*dev \\S+`, "m"),
          ],
          ["routes.txt", new RegExp(`^ipv6 table 116: ${ipv6}/128 `, "m")],
          ["rules.txt", /^ipv4 \d+: from all .*lookup 116/m],
          ["links.txt", /^\d+: lo: up .*\n {4}127\.0\.0\.1\/8 scope host$/m],
          ["links.txt", /alias COIL:acme-pool:/],
          [
            "nft_tables.txt",
            /^table inet coil-node\n(?: .*\n)* {2}chain .*\n {4}\[ meta /m,
          ],
          [
            "nft_tables.txt",
            new RegExp(
              `^table ip kube-proxy\n {2}chain service-ULMVA6XW-shop/till/tcp/80\n.* data ${ipv4} .*verdict 0`,
              "m",
            ),
          ],
          ["metrics.txt", /^coil_coild_addresses\{/m],
          ["ipam_check.txt", /problem/],
        ] as const
      ) assert.match(files.get(`${own}/${file}`) ?? "", expected);
      assert.match(files.get("status.txt") ?? "", /AddressPools: 1/);
      assert.equal(pools(files, "addressblocks").length, 1);
      assert.equal(pools(files, "nodes").length, 2);
      assert.equal(pools(files, "namespaces")[0].metadata.name, "shop");
      assert.deepEqual(
        pools(files, "pods").map((
          { metadata }: { metadata: { name: string } },
        ) => metadata.name),
        ["coild-1", "coild-2"],
      );
      const summary = files.get("SUMMARY.txt") ?? "";
      assert.match(
        summary,
        / {2}error: no kubelet\n {6}Pod kube-system\/coild-2: its own report\n/,
      );
      assert.match(summary, /^Not installed: spidercoordinators$/m);
      for (const log of ["coild.log", "coild.previous.log"]) {
        assert.ok(summary.includes(`Pod kube-system/coild-1: ${log}`), summary);
      }
      assert.match(err, /^Reading objects\n/);
      for (const [path, content] of files) {
        assert.ok(!content.includes(PASSWORD), path);
        assert.ok(!content.includes('"env"'), path);
      }
    },
  );

  await t.step(
    "--redact leaves no name and no address, and keeps what they have in common",
    async () => {
      const { files, err } = await dump(command);
      const names = ["shop", "shopfront", "checkout", "till", "acme"];
      names.push("node1", "node2");
      const [ipv4 = "", ipv6 = ""] = addresses;
      const all = [
        ...names,
        // What replaces an address is random: a single group of 16 bits comes back by chance.
        ...[ipv4, ipv6, "10.100.0.", "fd02::100:", "203.0.113."],
        ...lab.nodes.flatMap((node) => node.addresses),
      ];
      for (const [path, content] of [...files, ["stderr", err] as const]) {
        for (const name of all) {
          const word = new RegExp(`\\b${RegExp.escape(name)}`);
          assert.doesNotMatch(path, word);
          assert.doesNotMatch(content, word, path);
        }
      }
      const addressesFile = [...files.keys()]
        .find((path) => path.endsWith("/addresses.json")) ?? "";
      const { table } = JSON.parse(files.get(addressesFile) ?? "");
      const [block] = pools(files, "addressblocks");
      const [pool] = pools(files, "addresspools");
      assert.equal(table[0].block, block.metadata.name);
      assert.equal(block.metadata.name, `${pool.metadata.name}-0`);
      // The first address of a block of 32.
      assert.equal(
        `${table[0].addresses[0]}`.split(".")[0],
        `${block.ipv4}`.split(".")[0],
      );
      assert.notEqual(block.ipv4, "10.100.0.0/27");
    },
  );

  await t.step(
    "when the time is over there is an archive of what there is",
    async () => {
      await Deno.writeTextFile(`${directory}/hang`, "");
      const { files } = await dump("coil sysdump --timeout=12s");
      assert.match(
        files.get("SUMMARY.txt") ?? "",
        /there was no time left \(--timeout\)\n(.*\n)*.*coild-2: its own report\n/,
      );
    },
  );

  await t.step("Ctrl-C leaves nothing", async () => {
    const before = await namesIn(out);
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      const child = start("sysdump", "-o=cut.tar.gz");
      let err = "";
      let isSent = false;
      for await (
        const chunk of child.stderr.pipeThrough(new TextDecoderStream())
      ) {
        err += chunk;
        if (isSent || !err.includes("ipam check")) continue;
        isSent = true;
        child.kill(signal);
      }
      assert.equal(await new Response(child.stdout).text(), "");
      assert.equal((await child.status).code, 1);
      assert.match(err, /Error: Interrupted: no archive was written\n$/);
      assert.deepEqual(await namesIn(out), before);
    }
    await Deno.remove(`${directory}/hang`);
  });

  await t.step("what the account may not read is named", async () => {
    const viewer = await plane.kubeconfigFor({ user: "stranger" });
    const { code, err } = await coil([
      ...["sysdump", "-o", `${out}/stranger.tar.gz`, `--kubeconfig=${viewer}`],
    ], { signal });
    assert.equal(code, 3, err);
    assert.match(err, / {2}forbidden\n {6}addresspools\n/);
  });

  await t.step("without an API server there is no archive", async () => {
    const dead = `${directory}/dead.yaml`;
    const config = await Deno.readTextFile(plane.kubeconfig);
    await Deno.writeTextFile(
      dead,
      config.replaceAll(/https:\/\/[^"\s]+/g, "https://127.0.0.1:9"),
    );
    const { code, err } = await coil([
      ...["sysdump", "-o", `${out}/dead.tar.gz`, `--kubeconfig=${dead}`],
    ], { signal });
    assert.equal(code, 1);
    assert.match(err, /--kubeconfig/);
    await assert.rejects(Deno.stat(`${out}/dead.tar.gz`), Deno.errors.NotFound);
  });
});
