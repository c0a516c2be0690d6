// Sysctls from inside a container that is not privileged: /proc/sys is
// read-only, and one capability is left.
import assert from "node:assert/strict";
import {
  holdHostMountPoint,
  READ_ONLY_SYSCTLS,
  SYSCTL_VOLUME,
} from "../lab/host_mount.ts";

const LINUX = new URL("../../lib/linux/mod.ts", import.meta.url).href;
/** The script is not beside it. */
const CONFIG = new URL("../../deno.json", import.meta.url).pathname;

const SCRIPT = `
import { readSysctl, writeSysctl } from "${LINUX}";
const said = (name) => {
  try {
    writeSysctl(name, 1);
    return readSysctl(name);
  } catch (error) {
    return error.code ?? error.name;
  }
};
console.log(said("net/ipv4/ip_forward"), said("net/ipv4/there_is_none"));
`;

/** The script's line, from a fresh network namespace with these capabilities. */
async function runIn(
  { withVolume, capabilities }: {
    readonly withVolume: boolean;
    readonly capabilities: string;
  },
): Promise<string> {
  await using _host = await holdHostMountPoint();
  const script = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(script, SCRIPT);
  const command = [
    "mount --make-rprivate /",
    ...(withVolume ? [SYSCTL_VOLUME] : []),
    READ_ONLY_SYSCTLS,
    `exec setpriv --bounding-set=${capabilities} --inh-caps=-all ` +
    '--no-new-privs "$0" run --quiet --no-lock --config="$2" --allow-all "$1"',
  ].join(" && ");
  try {
    const { stdout, stderr, success } = await new Deno.Command("unshare", {
      args: [
        ...["--net", "--mount", "sh", "-c", command],
        ...[Deno.execPath(), script, CONFIG],
      ],
    }).output();
    const decoder = new TextDecoder();
    assert.ok(success, decoder.decode(stderr));
    return decoder.decode(stdout).trim();
  } finally {
    await Deno.remove(script);
  }
}

for (
  const { name, withVolume, capabilities, line } of [
    {
      name: "with the volume and CAP_NET_ADMIN, writeSysctl() works",
      withVolume: true,
      capabilities: "-all,+net_admin",
      line: /^1 ENOENT$/,
    },
    {
      name: "without the volume, writeSysctl() says that all is read-only",
      withVolume: false,
      capabilities: "-all,+net_admin",
      line: /^EROFS ENOENT$/,
    },
    {
      name: "without CAP_NET_ADMIN, the volume gives no right",
      withVolume: true,
      capabilities: "-all",
      line: /^E(ACCES|PERM) ENOENT$/,
    },
  ]
) {
  Deno.test(`W48: in a container ${name}`, async () => {
    assert.match(await runIn({ withVolume, capabilities }), line);
  });
}
