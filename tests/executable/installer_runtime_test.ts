// What the installer wrote, used by libcni as container runtimes do: the
// current one and one that knows nothing newer than CNI 1.0.0.
import assert from "node:assert/strict";
import { cnitool } from "./cnitool.ts";
import { Host, NAME, NETCONF } from "./installer_host.ts";
import { CannedCoild } from "./testing.ts";

/** A plugin of another vendor: notes what it gets, and passes the result on. */
const CHAINED = `#!/bin/sh
config=$(cat)
printf %s "$config" > "\${0%/*}/../config"
case $CNI_COMMAND in
VERSION) echo '{"supportedVersions":["1.0.0","1.1.0"]}' ;;
ADD) printf %s "$config" | sed 's/.*"prevResult":\\({.*}\\),"type".*/\\1/' ;;
esac
`;

interface Called {
  readonly code: number;
  readonly output: string;
}

async function call(
  tool: string,
  { host, command }: { readonly host: Host; readonly command: string },
): Promise<Called> {
  const { code, stdout, stderr } = await new Deno.Command(tool, {
    args: [command, NETCONF.name, "/proc/self/ns/net"],
    env: {
      CNI_PATH: host.bin,
      NETCONFPATH: host.etc,
      CNI_IFNAME: "eth0",
      // Nobody makes anything in it: any namespace will do.
      CNI_NETNS_OVERRIDE: "1",
    },
  }).output();
  const decoder = new TextDecoder();
  return { code, output: decoder.decode(stdout) + decoder.decode(stderr) };
}

/** A host with a chain of our plugin and another one's, made in two steps. */
async function chainedHost(socket: string): Promise<Host> {
  const host = await Host.make();
  const CNI_NETCONF = JSON.stringify({
    ...NETCONF,
    plugins: [{ type: "coil", socket }],
  });
  await host.install({ env: { CNI_NETCONF } });
  await Deno.writeTextFile(`${host.bin}/chained`, CHAINED, { mode: 0o755 });
  const config = await host.config();
  await host.write(NAME, {
    ...config,
    plugins: [...config.plugins, { type: "chained" }],
  });
  await host.install({ env: { CNI_NETCONF } });
  assert.deepEqual(await host.types(), ["coil", "chained"]);
  return host;
}

for (
  const [library, version] of [["v1.1.2", "1.0.0"], [
    "v1.3.0",
    "1.1.0",
  ]] as const
) {
  Deno.test(`libcni ${library} calls what was installed with CNI ${version}`, async () => {
    const asked: string[] = [];
    await using coild = await CannedCoild.start((args, { method }) => {
      const conf = JSON.parse(new TextDecoder().decode(args.stdinData));
      asked.push(`${method} ${conf.cniVersion}`);
      return Promise.resolve({
        cniVersion: "1.1.0",
        interfaces: [{ name: "eth0", sandbox: args.netns }],
        ips: [{ address: "10.1.2.3/32", interface: 0 }],
      });
    });
    await using host = await chainedHost(coild.socket);
    const tool = await cnitool(library);
    const { code, output } = await call(tool, { host, command: "add" });
    assert.equal(code, 0, output);
    assert.match(output, /10\.1\.2\.3\/32/);
    const seen = JSON.parse(await Deno.readTextFile(`${host.bin}/../config`));
    assert.equal(seen.cniVersion, version);
    assert.equal(seen.prevResult.ips[0].address, "10.1.2.3/32");
    // Also removes what libcni keeps of the attachment.
    const { code: failed } = await call(tool, { host, command: "del" });
    assert.equal(failed, 0);
    assert.deepEqual(asked, [`Add ${version}`, `Del ${version}`]);
  });
}

Deno.test("libcni: the node is not ready before coild is, and is then, decision 0008", async () => {
  await using directory = await Host.make();
  const socket = `${directory.directory}/coild.sock`;
  await using host = await chainedHost(socket);
  const tool = await cnitool();
  const before = await call(tool, { host, command: "status" });
  assert.notEqual(before.code, 0);
  assert.match(before.output, /coild is not running on this node/);
  await using coild = await CannedCoild.start(() => Promise.resolve({}));
  for (const suffix of ["", ".cni"]) {
    await Deno.symlink(coild.socket + suffix, socket + suffix);
  }
  const after = await call(tool, { host, command: "status" });
  assert.equal(after.code, 0, after.output);
});
