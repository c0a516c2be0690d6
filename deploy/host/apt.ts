import * as path from "node:path";
import { CommandError, run } from "./command.ts";
import { TextLineStream } from "./lines.ts";
import type { Log } from "./log.ts";

const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";
/** Index files that apt would fetch, as it knows them from its lists. */
const TARGETS = [
  ...["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"],
  "Created-By: Packages",
];

export interface PackageFetcherOptions {
  readonly log: Log;
  /** Prefers this release of Debian's, as "trixie-backports", to the host's own. Without it, the newest of stable, updates and security counts. */
  readonly release?: string;
}

/**
 * Downloads Debian packages without installing them, with lists and locks of its own: the host's apt and dpkg data are
 * only read. Sources are the host's Debian ones. Needs no root.
 */
export class PackageFetcher {
  readonly #dir: string;
  readonly #codename: string;
  readonly #log: Log;
  /** Release that is preferred, if any. */
  readonly #release: string | undefined;

  private constructor(
    dir: string,
    codename: string,
    { log, release }: PackageFetcherOptions,
  ) {
    this.#dir = dir;
    this.#codename = codename;
    this.#release = release;
    this.#log = log;
  }

  /** Reads the package lists. @throws {Error} when this is not a Debian whose sources apt knows. */
  static async open(
    dir: string,
    options: PackageFetcherOptions,
  ): Promise<PackageFetcher> {
    for (const sub of ["lists/partial", "cache", "debs/partial"]) {
      await Deno.mkdir(path.join(dir, sub), { recursive: true });
    }
    const fetcher = new PackageFetcher(dir, await codenameOfHost(), options);
    await fetcher.#update();
    return fetcher;
  }

  /** Name of the package that a package of another's choice, as "linux-image-amd64", would install. */
  async resolve(name: string, pattern: RegExp): Promise<string> {
    const plan = await this.#apt(
      [...NOTHING_INSTALLED, ...SIMULATE, ...this.#from, "install", name],
    );
    const found = plan.split("\n").flatMap((line) =>
      /^Inst (\S+) /.exec(line)?.[1] ?? []
    ).find((candidate) => pattern.test(candidate));
    if (found !== undefined) return found;
    throw new Error(
      `Cannot find a package ${pattern} for "${name}": apt-get would install ${
        plan.trim() || "nothing"
      }`,
    );
  }

  /**
   * Names of these packages and of all that they depend on, sorted, as if nothing but `assumed` were installed.
   * @throws {CommandError} when there is none of the name
   */
  async closure(
    names: readonly string[],
    options: { readonly assumed?: readonly string[] } = {},
  ): Promise<string[]> {
    const status = path.join(this.#dir, "status");
    const assumed = options.assumed ?? [];
    await Deno.writeTextFile(status, assumed.map(installed).join("\n"));
    const plan = await this.#apt([
      ...["-o", `Dir::State::status=${status}`, ...SIMULATE, ...this.#from],
      ...["install", ...names],
    ]);
    return [...plan.matchAll(/^Inst (\S+) /gm)].flatMap(([, name]) =>
      name ?? []
    )
      .sort();
  }

  /** Downloads exactly these packages and returns their files. */
  async download(names: readonly string[]): Promise<string[]> {
    const debs = path.join(this.#dir, "debs");
    await this.#aptShown(
      [...NOTHING_INSTALLED, ...this.#from, "download", ...names],
      debs,
    );
    const files: string[] = [];
    for (const name of names) files.push(await newest(debs, name));
    return files;
  }

  get #from(): string[] {
    return this.#release === undefined ? [] : ["-t", this.#release];
  }

  async #update(): Promise<void> {
    this.#log("reading Debian's package lists");
    const hosts = await this.#sources([]);
    const sources = hosts.length > 0 ? hosts : await this.#sourcesAfterUpdate();
    if (sources.length === 0) {
      throw new Error(
        `Cannot find a package source for Debian "${this.#codename}" in apt's configuration`,
      );
    }
    await Deno.writeTextFile(this.#sourceList, `${sources.join("\n")}\n`);
    // A mirror may lack one of several.
    const failure = await this.#apt(UPDATE).then(() => undefined, (error) => {
      if (error instanceof CommandError) return error;
      throw error;
    });
    for (const release of [this.#codename, this.#release]) {
      if (release === undefined || await this.#hasLists(release)) continue;
      throw new Error(
        `Cannot fetch the package lists of Debian "${release}": ${
          failure?.stderr.trim() ?? "apt-get update fetched none"
        }`,
        { cause: failure },
      );
    }
    if (failure !== undefined) {
      this.#log(`apt-get update had errors: ${failure.stderr.trim()}`);
    }
  }

  async #hasLists(release: string): Promise<boolean> {
    for await (const { name } of Deno.readDir(path.join(this.#dir, "lists"))) {
      if (name.includes(`_${release}_`) && name.includes("Packages")) {
        return true;
      }
    }
    return false;
  }

  /** Lines of a sources.list: the host's Debian ones for its own release, and for the one that is wanted besides. */
  async #sources(options: readonly string[]): Promise<string[]> {
    const rows = (await run("apt-get", [...options, ...TARGETS])).split("\n");
    const signed = await Deno.stat(KEYRING).then(() => true, () => false)
      ? `[signed-by=${KEYRING}] `
      : "";
    const lines = new Set<string>();
    for (const row of rows) {
      const [uri, release = "", component] = row.split(" ");
      if (component !== "main") continue;
      const [base, suffix = ""] = release.split("-");
      if (base !== this.#codename) continue;
      if (!["", "updates", "security"].includes(suffix)) continue;
      lines.add(`deb ${signed}${uri} ${release} main`);
      if (suffix !== "" || this.#release === undefined) continue;
      lines.add(`deb ${signed}${uri} ${this.#release} main`);
    }
    return [...lines];
  }

  /** On a machine that never ran `apt-get update`, apt knows no index files yet. */
  async #sourcesAfterUpdate(): Promise<string[]> {
    const lists = this.#options.filter((o) => !o.startsWith("Dir::Etc"));
    const options = lists.flatMap((option) => ["-o", option]);
    await run("apt-get", [...options, "update", "-q"]).catch((error) => {
      if (!(error instanceof CommandError)) throw error;
    });
    return await this.#sources(options);
  }

  get #sourceList(): string {
    return path.join(this.#dir, "sources.list");
  }

  get #options(): string[] {
    return [
      `Dir::Etc::sourcelist=${this.#sourceList}`,
      "Dir::Etc::sourceparts=-",
      `Dir::State::lists=${path.join(this.#dir, "lists")}`,
      `Dir::Cache=${path.join(this.#dir, "cache")}`,
      `Dir::Cache::archives=${path.join(this.#dir, "debs")}`,
      "Debug::NoLocking=1",
      "APT::Sandbox::User=",
      "Acquire::Languages=none",
      "Acquire::Retries=3",
      "Acquire::http::Timeout=30",
    ];
  }

  #aptArgs(args: readonly string[]): string[] {
    return [...this.#options.flatMap((o) => ["-o", o]), ...args];
  }

  async #apt(args: readonly string[]): Promise<string> {
    return await run("apt-get", this.#aptArgs(args));
  }

  /** As `#apt`, and reports each package that comes. */
  async #aptShown(args: readonly string[], cwd: string): Promise<void> {
    const child = new Deno.Command("apt-get", {
      cwd,
      args: this.#aptArgs(["-q", ...args]),
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const errors = new Response(child.stderr).text();
    for await (
      const line of child.stdout.pipeThrough(new TextLineStream())
    ) {
      const [, name, size] = /^Get:\d+ \S+ \S+ \S+ (\S+) .*\[(.*)\]$/
        .exec(line) ?? [];
      if (name !== undefined) this.#log(`downloading ${name} (${size})`);
    }
    const { success, code } = await child.status;
    if (success) return;
    throw new CommandError(
      `apt-get ${args.join(" ")}`,
      code,
      (await errors).trim(),
    );
  }
}

/** By default it succeeds also when it could fetch nothing. */
const UPDATE = ["-o", "APT::Update::Error-Mode=any", "update", "-q"];

/** So that the outcome does not hang on what the host has installed. */
const NOTHING_INSTALLED = ["-o", "Dir::State::status=/dev/null"];
const SIMULATE = ["--no-install-recommends", "-s"];

/** What dpkg's status says of a package that is there. */
function installed(name: string): string {
  return `Package: ${name}
Status: install ok installed
Version: 999
Architecture: all
Multi-Arch: foreign
Maintainer: nobody
Description: assumed
`;
}

async function codenameOfHost(): Promise<string> {
  const text = await Deno.readTextFile("/etc/os-release");
  const codename = /^VERSION_CODENAME="?([a-z]+)"?$/m.exec(text)?.[1];
  if (codename !== undefined) return codename;
  throw new Error(
    'Cannot fetch Debian packages: "/etc/os-release" has no VERSION_CODENAME; this needs Debian',
  );
}

/** The file of the package that was written last: an older version may lie beside it. */
async function newest(dir: string, name: string): Promise<string> {
  let best: { file: string; time: number } | undefined;
  for await (const entry of Deno.readDir(dir)) {
    if (!entry.name.startsWith(`${name}_`)) continue;
    const file = path.join(dir, entry.name);
    const time = (await Deno.stat(file)).mtime?.getTime() ?? 0;
    if (best === undefined || time > best.time) best = { file, time };
  }
  if (best !== undefined) return best.file;
  throw new Error(`Cannot find the downloaded package "${name}" in "${dir}"`);
}
