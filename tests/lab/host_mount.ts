import * as path from "node:path";
import { labDir, lockFile } from "./cache.ts";

/** Where containers of Coil have the node's /proc/sys/net. */
const MOUNT_POINT = "/host";

/** What a runtime makes of /proc/sys for a container that is not privileged; in a mount namespace of its own. */
export const READ_ONLY_SYSCTLS: string =
  "mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys";

/** A volume with the host's /proc/sys/net; likewise, and {@link holdHostMountPoint} has to be held. */
export const SYSCTL_VOLUME: string =
  `mount -t tmpfs none ${MOUNT_POINT} && mkdir -p ${MOUNT_POINT}/proc/sys/net && ` +
  `mount --bind /proc/sys/net ${MOUNT_POINT}/proc/sys/net`;

/** Makes the directory to mount that volume at, for one test at a time; removes it unless it was there before. */
export async function holdHostMountPoint(): Promise<AsyncDisposable> {
  await using undo = new AsyncDisposableStack();
  undo.use(await lockFile(path.join(labDir(), "host-mount.lock")));
  try {
    await Deno.mkdir(MOUNT_POINT);
    undo.defer(() => Deno.remove(MOUNT_POINT));
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
  return undo.move();
}

/** What a container's manifest leaves its program. */
export interface Confinement {
  /** As `NET_ADMIN`; all others are dropped. */
  readonly capabilities: readonly string[];
  readonly user: number;
}

/** A command line that runs what follows it with just that, and without a way to gain more. */
export function confinedBy(
  { capabilities, user }: Confinement,
): readonly string[] {
  const kept = capabilities.map((name) => `,+${name.toLowerCase()}`);
  return [
    "setpriv",
    `--bounding-set=-all${kept.join("")}`,
    "--inh-caps=-all",
    "--no-new-privs",
    `--reuid=${user}`,
    `--regid=${user}`,
    "--clear-groups",
  ];
}

/** The same in a container's mounts: a read-only /proc/sys, and the volume; in a mount namespace of its own. */
export function containedBy(confinement: Confinement): readonly string[] {
  const script = `${SYSCTL_VOLUME} && ${READ_ONLY_SYSCTLS} && exec "$@"`;
  return ["sh", "-ec", script, "sh", ...confinedBy(confinement)];
}
