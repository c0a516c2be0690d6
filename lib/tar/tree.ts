import type { TarEntry } from "./tar.ts";

const encoder = new TextEncoder();

/** The files of a layer: each path once, parents before what is in them, in one order. */
export class Tree {
  readonly #entries = new Map<string, TarEntry>();

  /** Adds an entry; one of the same path is replaced, unless both are directories. */
  add(entry: TarEntry): void {
    const there = this.#entries.get(entry.path);
    if (there?.kind === "directory" && entry.kind === "directory") return;
    this.#entries.set(entry.path, entry);
  }

  addText(path: string, text: string): void {
    const content = { bytes: encoder.encode(text) };
    this.add({ path, mode: 0o644, kind: "file", content });
  }

  addDirectory(path: string, mode = 0o755): void {
    this.add({ path, mode, kind: "directory" });
  }

  addLink(path: string, target: string): void {
    this.add({ path, mode: 0o777, kind: "symlink", target });
  }

  get(path: string): TarEntry | undefined {
    return this.#entries.get(path);
  }

  /** All entries, sorted, with the directories that were not added themselves. */
  entries(): readonly TarEntry[] {
    const all = new Map(this.#entries);
    for (const path of this.#entries.keys()) {
      const parts = path.split("/");
      for (let depth = 1; depth < parts.length; depth++) {
        const parent = parts.slice(0, depth).join("/");
        if (all.has(parent)) continue;
        all.set(parent, { path: parent, mode: 0o755, kind: "directory" });
      }
    }
    return [...all.values()].sort((a, b) => a.path < b.path ? -1 : 1);
  }
}
