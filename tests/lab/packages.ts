import * as path from "node:path";
import { labDir, lockFile } from "./cache.ts";

/** What runs commands in network and mount namespaces. */
export const NET_PACKAGES: Readonly<Record<string, string>> = {
  iproute2: "ip",
  "util-linux": "nsenter",
  mount: "mount",
  procps: "sysctl",
  nftables: "nft",
  // The names of protocols that nft prints.
  netbase: "/etc/protocols",
};

/** What the packer of the executable needs. */
export const BUILD_PACKAGES: Readonly<Record<string, string>> = {
  gcc: "gcc",
  "libc6-dev": "/usr/include/stdlib.h",
};

/** What {@link ensureControlPlane} and the control plane need. */
export const CONTROL_PLANE_PACKAGES: Readonly<Record<string, string>> = {
  ...NET_PACKAGES,
  openssl: "openssl",
  // Without it Go trusts no module proxy.
  "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
};

/** What real nodes need: {@link ensureCluster}. */
export const CLUSTER_PACKAGES: Readonly<Record<string, string>> = {
  ...CONTROL_PLANE_PACKAGES,
  containerd: "containerd",
  runc: "runc",
  // containerd sets a pod's loopback up by a plugin.
  "containernetworking-plugins": "/usr/lib/cni/loopback",
  // The plugin for ports of the host wants it, be there any or not.
  iptables: "iptables",
};

/** Whether a command is on PATH, or a file given by its full path exists. */
export function isThere(commandOrFile: string): boolean {
  const candidates = commandOrFile.startsWith("/")
    ? [commandOrFile]
    : `${Deno.env.get("PATH") ?? ""}:/usr/sbin:/sbin`.split(":").map((dir) =>
      `${dir}/${commandOrFile}`
    );
  return candidates.some((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false;
      if (error instanceof Deno.errors.NotADirectory) return false;
      throw error;
    }
  });
}

/**
 * Installs the Debian packages whose command or file is missing.
 *
 * Several processes may call it at once.
 * @throws {Error} when packages are missing and cannot be installed.
 */
export async function preparePackages(
  packages: Readonly<Record<string, string>>,
  say: (text: string) => void,
): Promise<void> {
  if (missingOf(packages).length === 0) return;
  // apt-get does not wait for another one that updates its lists.
  using _lock = await lockFile(path.join(labDir(), "packages.lock"), {
    onWait: () => say("waiting for another run that installs packages"),
  });
  const missing = missingOf(packages);
  if (missing.length === 0) return;
  const names = missing.join(" ");
  if (Deno.uid() !== 0) {
    throw new Error(`Cannot install Debian packages "${names}": not root`);
  }
  say(`installing Debian packages: ${names}`);
  await apt(missing, ["update", "-q"]);
  await apt(missing, [
    "install",
    "-y",
    "-q",
    "--no-install-recommends",
    ...missing,
  ]);
  const still = missingOf(packages);
  if (still.length === 0) return;
  throw new Error(
    `Cannot go on: package "${still[0]}" is installed but "${
      packages[still[0] ?? ""]
    }" is missing`,
  );
}

function missingOf(packages: Readonly<Record<string, string>>): string[] {
  return Object.entries(packages)
    .filter(([, proof]) => !isThere(proof))
    .map(([name]) => name);
}

const APT_OPTIONS = [
  "DPkg::Lock::Timeout=300",
  "Acquire::Retries=2",
  "Acquire::http::Timeout=30",
].flatMap((option) => ["-o", option]);

async function apt(
  packages: readonly string[],
  args: readonly string[],
): Promise<void> {
  const why = await failureOf([...APT_OPTIONS, ...args]);
  if (why === undefined) return;
  throw new Error(
    `Cannot install Debian packages "${packages.join(" ")}": "apt-get ${
      args[0]
    }" failed: ${why}`,
  );
}

/** Undefined when apt-get succeeded. */
async function failureOf(args: string[]): Promise<string | undefined> {
  try {
    const { success, stdout, stderr } = await new Deno.Command("apt-get", {
      args,
      env: { DEBIAN_FRONTEND: "noninteractive" },
    }).output();
    if (success) return undefined;
    const text = new TextDecoder().decode(stderr) ||
      new TextDecoder().decode(stdout);
    return text.trim().split("\n").slice(-3).join("; ");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return "there is no apt-get; install them another way";
  }
}
