// The plugin called by the CNI project's own client, cnitool, through its
// library libcni, as container runtimes do. Needs Go, to build cnitool.
import assert from "node:assert/strict";
import { withCniCache } from "../lab/cni_cache.ts";
import { cnitool } from "./cnitool.ts";
import { CannedCoild, pathOf } from "./testing.ts";

interface Network {
  readonly cniVersion: string;
  readonly socket: string;
}

/** A network configuration in a directory, and a network namespace. */
class Runtime implements AsyncDisposable {
  readonly netns = `ct-tool-${crypto.randomUUID().slice(0, 8)}`;
  readonly #directory: string;
  readonly #cache: string;
  readonly #cnitool: string;
  readonly #plugins: string;

  private constructor(tool: string, plugins: string, directory: string) {
    [this.#cnitool, this.#plugins] = [tool, plugins];
    this.#directory = directory;
    this.#cache = `${directory}/cache`;
  }

  static async start(network: Network): Promise<Runtime> {
    const plugin = await pathOf("coil");
    const runtime = new Runtime(
      await cnitool(),
      plugin.slice(0, plugin.lastIndexOf("/")),
      await Deno.makeTempDir(),
    );
    const { cniVersion, socket } = network;
    await Deno.mkdir(runtime.#cache);
    await Deno.writeTextFile(
      `${runtime.#directory}/10-coil.conflist`,
      JSON.stringify({
        cniVersion,
        name: "k8s-pod-network",
        plugins: [{ type: "coil", socket }],
      }),
    );
    await new Deno.Command("ip", { args: ["netns", "add", runtime.netns] })
      .output();
    return runtime;
  }

  async call(command: string): Promise<{ code: number; stdout: string }> {
    const [program, ...args] = withCniCache(this.#cache, [
      ...[this.#cnitool, command],
      ...["k8s-pod-network", `/run/netns/${this.netns}`],
    ]);
    const { code, stdout, stderr } = await new Deno.Command(program, {
      args,
      env: {
        CNI_PATH: this.#plugins,
        NETCONFPATH: this.#directory,
        CNI_IFNAME: "eth0",
        CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod",
      },
    }).output();
    const decoder = new TextDecoder();
    return { code, stdout: decoder.decode(stdout) + decoder.decode(stderr) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const args = ["netns", "delete", this.netns];
    await new Deno.Command("ip", { args }).output();
    await Deno.remove(this.#directory, { recursive: true });
  }
}

/** Records what coild is asked, as lines. */
async function record(
  cniVersion: string,
  commands: readonly string[],
): Promise<{ asked: string[]; printed: string[] }> {
  const asked: string[] = [];
  await using coild = await CannedCoild.start((args, { method }) => {
    asked.push(`${method} ${args.ifname}`.trim());
    return Promise.resolve({
      cniVersion: "1.1.0",
      interfaces: [{ name: args.ifname, sandbox: args.netns }],
      ips: [{ address: "10.1.2.3/32", interface: 0 }],
    });
  });
  const { socket } = coild;
  await using runtime = await Runtime.start({ cniVersion, socket });
  const printed: string[] = [];
  for (const command of commands) {
    const { code, stdout } = await runtime.call(command);
    assert.equal(code, 0, `${command}: ${stdout}`);
    printed.push(stdout);
  }
  return { asked, printed };
}

for (
  const [cniVersion, commands] of [
    // CHECK came with 0.4.0, STATUS and GC with 1.1.0.
    ["0.3.1", ["add", "del"]],
    ["0.4.0", ["add", "check", "del"]],
    ["1.0.0", ["add", "check", "del"]],
  ] as const
) {
  Deno.test(`cnitool calls ${commands.join(", ")} with ${cniVersion}`, async () => {
    const { asked, printed } = await record(cniVersion, commands);
    const names = { add: "Add", check: "Check", del: "Del" };
    assert.deepEqual(asked, commands.map((name) => `${names[name]} eth0`));
    const { ips } = JSON.parse(printed[0] ?? "");
    assert.equal(ips[0].address, "10.1.2.3/32");
  });
}

Deno.test("cnitool knows the commands of 1.1.0", async () => {
  const commands = ["status", "add", "check", "del"];
  const { asked } = await record("1.1.0", commands);
  assert.deepEqual(asked, ["Status", "Add eth0", "Check eth0", "Del eth0"]);
});

Deno.test("GC without a list, as of cnitool, releases nothing", async () => {
  const asked: string[] = [];
  await using coild = await CannedCoild.start((_args, { method }) => {
    asked.push(method);
    return Promise.resolve({ cniVersion: "1.1.0" });
  });
  const { socket } = coild;
  await using runtime = await Runtime.start({ cniVersion: "1.1.0", socket });
  const { code, stdout } = await runtime.call("gc");
  assert.notEqual(code, 0);
  assert.match(stdout, /missing cni\.dev\/valid-attachments/);
  assert.deepEqual(asked, []);
});

Deno.test("cnitool is told that coild is absent", async () => {
  const socket = "/nowhere/coild.sock";
  await using runtime = await Runtime.start({ cniVersion: "1.1.0", socket });
  for (const command of ["status", "add", "del"]) {
    const { code, stdout } = await runtime.call(command);
    assert.notEqual(code, 0);
    assert.match(stdout, /coild is not running on this node/);
  }
});
