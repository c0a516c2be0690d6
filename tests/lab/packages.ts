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
 * @throws {Error} when packages are missing and cannot be installed.
 */
export async function preparePackages(
  packages: Readonly<Record<string, string>>,
  say: (text: string) => void,
): Promise<void> {
  const missing = Object.entries(packages)
    .filter(([, proof]) => !isThere(proof))
    .map(([name]) => name);
  if (missing.length === 0) return;
  say(`installing Debian packages: ${missing.join(" ")}`);
  await apt(["update", "-q"]);
  await apt(["install", "-y", "-q", "--no-install-recommends", ...missing]);
}

async function apt(args: readonly string[]): Promise<void> {
  const { success, stdout, stderr } = await new Deno.Command("apt-get", {
    args: [...args],
    env: { DEBIAN_FRONTEND: "noninteractive" },
  }).output();
  if (success) return;
  const text = new TextDecoder().decode(stderr) ||
    new TextDecoder().decode(stdout);
  throw new Error(
    `Cannot run "apt-get ${args.join(" ")}": ${
      text.trim().split("\n").slice(-3).join("; ")
    }`,
  );
}
