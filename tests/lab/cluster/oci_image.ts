import { createHash } from "node:crypto";

/** An image with one executable in it. */
export interface SmallImage {
  /** Its name with registry and tag, as pods name it. */
  readonly reference: string;
  /** The file, and where it is in the image: "/name". */
  readonly executable: string;
  readonly entrypoint: readonly string[];
}

/** Names of machines in image descriptions, which are Go's. */
const ARCHITECTURES = { x86_64: "amd64", aarch64: "arm64" } as const;

/** Writes an image as an OCI layout in a tar, which `ctr images import` reads: no registry, no container engine. */
export async function writeImage(
  file: string,
  image: SmallImage,
): Promise<void> {
  const architecture = ARCHITECTURES[Deno.build.arch];
  const name = image.executable.split("/").at(-1) ?? "";
  const layer = tar([{
    name,
    mode: 0o755,
    data: await Deno.readFile(image.executable),
  }]);
  const config = json({
    architecture,
    os: "linux",
    created: "1970-01-01T00:00:00Z",
    config: { Entrypoint: image.entrypoint, Env: ["PATH=/"], WorkingDir: "/" },
    rootfs: { type: "layers", diff_ids: [digestOf(layer)] },
  });
  const manifest = json({
    schemaVersion: 2,
    mediaType: `${MEDIA}.manifest.v1+json`,
    config: descriptor("config.v1+json", config),
    layers: [descriptor("layer.v1.tar", layer)],
  });
  const index = json({
    schemaVersion: 2,
    manifests: [{
      ...descriptor("manifest.v1+json", manifest),
      platform: { architecture, os: "linux" },
      annotations: { "io.containerd.image.name": image.reference },
    }],
  });
  const blobs = [config, manifest, layer].map((data) => ({
    name: `blobs/sha256/${digestOf(data).slice("sha256:".length)}`,
    data,
  }));
  const layout = json({ imageLayoutVersion: "1.0.0" });
  await Deno.writeFile(
    file,
    tar([
      { name: "oci-layout", data: layout },
      { name: "index.json", data: index },
      ...blobs,
    ]),
  );
}

const MEDIA = "application/vnd.oci.image";

function descriptor(type: string, data: Uint8Array) {
  return {
    mediaType: `${MEDIA}.${type}`,
    digest: digestOf(data),
    size: data.length,
  };
}

function digestOf(data: Uint8Array): string {
  return `sha256:${createHash("sha256").update(data).digest("hex")}`;
}

function json(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
}

interface TarEntry {
  readonly name: string;
  readonly data: Uint8Array;
  readonly mode?: number;
}

const TAR_BLOCK = 512;

/** An archive in POSIX's "ustar" format; names are shorter than 100 bytes. */
function tar(entries: readonly TarEntry[]): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const entry of entries) {
    const padding = -entry.data.length & (TAR_BLOCK - 1);
    parts.push(tarHeader(entry), entry.data, new Uint8Array(padding));
  }
  parts.push(new Uint8Array(2 * TAR_BLOCK));
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const whole = new Uint8Array(size);
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}

function tarHeader({ name, data, mode = 0o644 }: TarEntry): Uint8Array {
  const header = new Uint8Array(TAR_BLOCK);
  const encoder = new TextEncoder();
  const put = (offset: number, text: string) =>
    header.set(encoder.encode(text), offset);
  const octal = (value: number, digits: number) =>
    value.toString(8).padStart(digits, "0");
  put(0, name);
  put(100, octal(mode, 7));
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  put(124, octal(data.length, 11));
  put(136, octal(0, 11));
  // Counts as spaces in its own sum.
  put(148, " ".repeat(8));
  put(156, "0");
  put(257, "ustar\0" + "00");
  const sum = header.reduce((total, byte) => total + byte, 0);
  put(148, `${octal(sum, 6)}\0 `);
  return header;
}
