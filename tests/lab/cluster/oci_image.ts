import { packImage, requireArchitecture } from "../../../deploy/image/mod.ts";

/** An image with one executable in it. */
export interface SmallImage {
  /** Its name with registry and tag, as pods name it. */
  readonly reference: string;
  /** The file; it has the same name in the image, at the root. */
  readonly executable: string;
  readonly entrypoint: readonly string[];
}

/** Makes an archive which `ctr images import` reads, in the cache, and returns its path. */
export async function packSmallImage(image: SmallImage): Promise<string> {
  const { reference, executable, entrypoint } = image;
  const path = executable.split("/").at(-1) ?? "";
  const { size: sizeBytes } = await Deno.stat(executable);
  const packed = await packImage({
    layers: [{
      about: path,
      entries: [{
        path,
        mode: 0o755,
        kind: "file" as const,
        content: { file: executable, sizeBytes },
      }],
    }],
    architecture: await requireArchitecture(executable),
    reference,
    created: 0,
    defaults: {
      user: "0:0",
      env: ["PATH=/"],
      entrypoint,
      command: [],
      labels: {},
    },
  }, { compression: "none" });
  return packed.path;
}
