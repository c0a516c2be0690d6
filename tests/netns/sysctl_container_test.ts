// Sysctls from inside a container that is not privileged: /proc/sys is
// read-only, and one capability is left.
import assert from "node:assert/strict";

const LINUX = new URL("../../lib/linux/mod.ts", import.meta.url).href;

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

/** What a runtime makes of /proc/sys for a container that is not privileged. */
const READ_ONLY =
  "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys";

/** A volume with the host's /proc/sys/net. */
const VOLUME = "mount -t tmpfs none /host && mkdir -p /host/proc/sys/net && " +
  "mount --bind /proc/sys/net /host/proc/sys/net";

/** A directory of the machine's root to mount the volume at; removed if it was not there. */
async function makeMountPoint(): Promise<AsyncDisposable> {
  try {
    await Deno.mkdir("/host");
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    return { [Symbol.asyncDispose]: () => Promise.resolve() };
  }
  return { [Symbol.asyncDispose]: () => Deno.remove("/host") };
}

/** The script's line, from a fresh network namespace with these capabilities. */
async function runIn(
  { withVolume, capabilities }: {
    readonly withVolume: boolean;
    readonly capabilities: string;
  },
): Promise<string> {
  await using _host = await makeMountPoint();
  const script = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(script, SCRIPT);
  const command = [
    "mount --make-rprivate /",
    ...(withVolume ? [VOLUME] : []),
    READ_ONLY,
    `exec setpriv --bounding-set=${capabilities} --inh-caps=-all ` +
    '--no-new-privs "$0" run --quiet --no-lock --allow-all "$1"',
  ].join(" && ");
  try {
    const { stdout, stderr, success } = await new Deno.Command("unshare", {
      args: ["--net", "--mount", "sh", "-c", command, Deno.execPath(), script],
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
