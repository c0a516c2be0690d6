import { createHash } from "node:crypto";
import * as path from "node:path";
import type { Log } from "./build.ts";
import { labDir } from "./cache.ts";
import { buildGoModule } from "./go.ts";

const SOURCES = path.join(import.meta.dirname ?? ".", "containerd");
const FILES = ["go.mod", "go.sum", "cnicall/main.go"];
const VERSION = "v2.2.9";
const MODULE = "github.com/containerd/containerd/v2";
const PLUGINS = "github.com/containernetworking/plugins/plugins";
const PACKAGES = [
  `${MODULE}/cmd/containerd`,
  `${MODULE}/cmd/containerd-shim-runc-v2`,
  // Those of Debian know no CNI 1.1, and a chain speaks what all of it knows.
  `${PLUGINS}/main/loopback`,
  `${PLUGINS}/meta/portmap`,
  "./cnicall",
];
/** What needs C libraries, or that nobody looks at here. */
const TAGS = "no_btrfs,no_zfs,no_devmapper,no_tracing";
const GO_MINIMUM = "1.25";

/** Executables of containerd 2, and our caller of its CNI library. */
export interface Containerd2 {
  /** Directory of `containerd`, `containerd-shim-runc-v2`, and the plugins `loopback` and `portmap`. */
  readonly directory: string;
  /** Path of `cnicall`: see its source in `tests/lab/containerd`. */
  readonly cnicall: string;
}

/**
 * Builds containerd 2 from its Go module when it is missing. Debian has containerd 1.6, which knows no CNI 1.1 and so
 * asks no plugin for its STATUS. It takes some 150 s of processor time when nothing is in the build cache.
 */
export async function ensureContainerd2(
  options: { readonly log?: Log } = {},
): Promise<Containerd2> {
  const id = await sourcesId();
  const directory = path.join(
    labDir(),
    "bin",
    `containerd-${VERSION}-${id}`,
  );
  const made = { directory, cnicall: path.join(directory, "cnicall") };
  await buildGoModule({
    output: `${directory}/`,
    title: `containerd ${VERSION}`,
    sources: SOURCES,
    minimum: GO_MINIMUM,
    args: ["-tags", TAGS, "-ldflags", linkerFlags(), ...PACKAGES],
    log: options.log,
  });
  return made;
}

async function sourcesId(): Promise<string> {
  const hash = createHash("sha256").update(TAGS).update(linkerFlags());
  for (const file of FILES) {
    hash.update(await Deno.readFile(path.join(SOURCES, file)));
  }
  return hash.digest("hex").slice(0, 12);
}

/** kubelet wants a runtime that tells its version. */
function linkerFlags(): string {
  return `-s -w -X ${MODULE}/version.Version=${VERSION}`;
}
