// An image's archive, read back.
import { readTar, type TarEntry } from "../../lib/tar/mod.ts";

const decoder = new TextDecoder();

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface Manifest {
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}

/** The part of an image's configuration that tests ask for; keys are the specification's. */
export interface ImageConfig {
  readonly architecture: string;
  readonly os: string;
  readonly created: string;
  readonly config: {
    readonly User: string;
    readonly Env: readonly string[];
    readonly Cmd: readonly string[];
    readonly WorkingDir: string;
    readonly Labels: Readonly<Record<string, string>>;
  };
  readonly rootfs: { readonly "diff_ids": readonly string[] };
}

/** What docker reads. */
export interface DockerManifest {
  readonly Config: string;
  readonly RepoTags: readonly string[];
  readonly Layers: readonly string[];
}

/** An image's archive, read into memory. */
export class OpenImage {
  readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
  readonly descriptor: Descriptor;
  readonly manifest: Manifest;
  readonly config: ImageConfig;
  readonly docker: readonly DockerManifest[];
  #entries: Promise<readonly TarEntry[]> | undefined;

  private constructor(files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>) {
    this.files = files;
    const index: { readonly manifests: readonly [Descriptor] } = JSON.parse(
      this.text("index.json"),
    );
    this.descriptor = index.manifests[0];
    this.manifest = JSON.parse(decoder.decode(this.blob(this.descriptor)));
    this.config = JSON.parse(decoder.decode(this.blob(this.manifest.config)));
    this.docker = JSON.parse(this.text("manifest.json"));
  }

  static async read(path: string): Promise<OpenImage> {
    const files = new Map<string, Uint8Array<ArrayBuffer>>();
    for (const entry of readTar(await Deno.readFile(path))) {
      if (entry.kind !== "file" || !("bytes" in entry.content)) continue;
      files.set(entry.path, entry.content.bytes);
    }
    return new OpenImage(files);
  }

  text(path: string): string {
    const bytes = this.files.get(path);
    if (bytes === undefined) throw new Error(`there is no "${path}"`);
    return decoder.decode(bytes);
  }

  /** What a descriptor describes. */
  blob({ digest }: Descriptor): Uint8Array<ArrayBuffer> {
    const bytes = this.files.get(`blobs/${digest.replace(":", "/")}`);
    if (bytes === undefined) throw new Error(`there is no blob ${digest}`);
    return bytes;
  }

  /** A layer's archive without its compression. */
  async layer(descriptor: Descriptor): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = this.blob(descriptor);
    if (!descriptor.mediaType.endsWith("+gzip")) return bytes;
    const stream = new Blob([bytes]).stream()
      .pipeThrough(new DecompressionStream("gzip"));
    return await new Response(stream).bytes();
  }

  /** Files of all layers, sorted; a later one replaces. */
  entries(): Promise<readonly TarEntry[]> {
    return this.#entries ??= this.#readEntries();
  }

  /** Text of a file in the layers. */
  async textOf(path: string): Promise<string> {
    const entry = (await this.entries()).find((each) => each.path === path);
    if (entry?.kind === "file" && "bytes" in entry.content) {
      return decoder.decode(entry.content.bytes);
    }
    throw new Error(`there is no file "${path}" in the image`);
  }

  async #readEntries(): Promise<readonly TarEntry[]> {
    const all = new Map<string, TarEntry>();
    for (const layer of this.manifest.layers) {
      for (const entry of readTar(await this.layer(layer))) {
        all.set(entry.path, entry);
      }
    }
    return [...all.values()].sort((a, b) => a.path < b.path ? -1 : 1);
  }
}
