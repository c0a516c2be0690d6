// The documents of an image: OCI image specification 1.0, and what docker and
// containerd read beside it.
import { createHash } from "node:crypto";
import type { Layer } from "./layer.ts";
import type { Reference } from "./reference.ts";

/** The processor's name in Go's words, as images have it. */
export type Architecture = "amd64" | "arm64";

/** What a container gets that says nothing itself. */
export interface ContainerDefaults {
  readonly user: string;
  readonly env: readonly string[];
  /** What a container's own arguments are appended to. */
  readonly entrypoint?: readonly string[];
  readonly command: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

export interface ImageParts {
  readonly layers: readonly Layer[];
  readonly architecture: Architecture;
  readonly defaults: ContainerDefaults;
  readonly reference: Reference;
  /** Seconds since 1970. */
  readonly created: number;
}

/** A document and the name that its contents give it. */
export interface Blob {
  readonly digest: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** All documents of an image. */
export interface Documents {
  readonly config: Blob;
  readonly manifest: Blob;
  /** Files at the archive's root, by name. */
  readonly files: Readonly<Record<string, Uint8Array<ArrayBuffer>>>;
}

const TYPE = "application/vnd.oci.image";

/** The documents of an image. Pure: the same parts give the same bytes. */
export function planDocuments(parts: ImageParts): Documents {
  const { layers } = parts;
  const config = blobOf(planConfig(parts));
  const manifest = blobOf({
    schemaVersion: 2,
    mediaType: `${TYPE}.manifest.v1+json`,
    config: descriptor(config, `${TYPE}.config.v1+json`),
    layers: layers.map(({ digest, sizeBytes, compression }) => ({
      mediaType: `${TYPE}.layer.v1.tar${compression === "gzip" ? "+gzip" : ""}`,
      digest,
      size: sizeBytes,
    })),
  });
  return {
    config,
    manifest,
    files: {
      "oci-layout": json({ imageLayoutVersion: "1.0.0" }),
      "index.json": json(planIndex(manifest, parts)),
      "manifest.json": json(planDockerManifest(config, parts)),
    },
  };
}

function planIndex(manifest: Blob, parts: ImageParts): unknown {
  const { architecture, reference } = parts;
  return {
    schemaVersion: 2,
    mediaType: `${TYPE}.index.v1+json`,
    manifests: [{
      ...descriptor(manifest, `${TYPE}.manifest.v1+json`),
      platform: { architecture, os: "linux" },
      annotations: {
        "io.containerd.image.name": reference.full,
        "org.opencontainers.image.ref.name": reference.tag,
      },
    }],
  };
}

/** What `docker save` writes and every `docker load` reads. */
function planDockerManifest(config: Blob, parts: ImageParts): unknown {
  const { layers, reference } = parts;
  return [{
    Config: blobPath(config.digest),
    RepoTags: [reference.familiar],
    Layers: layers.map(({ digest }) => blobPath(digest)),
  }];
}

/** Where a blob is in the archive. */
export function blobPath(digest: string): string {
  return `blobs/${digest.replace(":", "/")}`;
}

function planConfig(parts: ImageParts): unknown {
  const { defaults, layers } = parts;
  const created = new Date(parts.created * 1000).toISOString()
    .replace(".000Z", "Z");
  return {
    created,
    architecture: parts.architecture,
    os: "linux",
    config: {
      User: defaults.user,
      Env: defaults.env,
      ...(defaults.entrypoint === undefined
        ? {}
        : { Entrypoint: defaults.entrypoint }),
      Cmd: defaults.command,
      WorkingDir: "/",
      Labels: defaults.labels,
    },
    rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(({ about }) => ({ created, created_by: about })),
  };
}

function descriptor(blob: Blob, mediaType: string) {
  return { mediaType, digest: blob.digest, size: blob.bytes.length };
}

function blobOf(value: unknown): Blob {
  const bytes = json(value);
  const hash = createHash("sha256").update(bytes).digest("hex");
  return { digest: `sha256:${hash}`, bytes };
}

function json(value: unknown): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify(value));
}
