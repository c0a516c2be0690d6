import { run } from "../../deploy/host/mod.ts";
import { ROOT } from "../arch/ranks.ts";

/** A private copy of the working tree, uncommitted changes included, that goes with its disposal. */
export class TreeCopy implements Disposable {
  readonly root: string;

  private constructor(root: string) {
    this.root = root;
  }

  static async create(): Promise<TreeCopy> {
    const copy = new TreeCopy(
      await Deno.makeTempDir({ prefix: "coil-mutate-" }),
    );
    const list = "git ls-files -z --cached --others --exclude-standard";
    const pack = "tar --create --null --ignore-failed-read --files-from=-";
    const unpack = `tar --extract --directory='${copy.root}'`;
    const script = `${list} | ${pack} | ${unpack}`;
    await run("sh", ["-c", script], { cwd: ROOT });
    return copy;
  }

  /** Runs the function while the file has another text. */
  async withText<T>(
    file: string,
    change: (text: string) => string,
    fn: () => Promise<T>,
  ): Promise<T> {
    const path = `${this.root}/${file}`;
    const text = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, change(text));
    try {
      return await fn();
    } finally {
      await Deno.writeTextFile(path, text);
    }
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

/** Files of the working tree below these paths. */
export async function filesBelow(paths: readonly string[]): Promise<string[]> {
  const args = ["ls-files", "--cached", "--others", "--exclude-standard"];
  const text = await run("git", [...args, "--", ...paths], { cwd: ROOT });
  return text.split("\n").filter((file) => file.endsWith(".ts"));
}

/** Whether mutants are made of the file: neither a test, nor what only tests use, nor generated. */
export function isProduction(file: string): boolean {
  return /^(lib|roles|main\.ts)/.test(file) && file.endsWith(".ts") &&
    !/(_test|(^|[_/])testing)\.ts$|(^|\/)gen\//.test(file);
}
