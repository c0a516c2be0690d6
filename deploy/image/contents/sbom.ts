// What the image is made of, as a list that scanners read: SPDX 2.3.
import { createHash } from "node:crypto";
import { VERSION } from "../../../lib/names/mod.ts";
import { ImageError } from "../base/errors.ts";
import type { Package } from "./packages.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;

/** A third-party component in the image. */
export interface Component {
  readonly name: string;
  readonly version: string;
  /** Package URL, https://github.com/package-url/purl-spec. */
  readonly purl: string;
}

export interface SbomParts {
  readonly debian: readonly Package[];
  readonly npm: readonly Component[];
  readonly deno: string;
  /** Seconds since 1970. */
  readonly created: number;
}

/** Part of what `deno info --json` says. */
interface ModuleGraph {
  readonly modules: readonly {
    readonly kind?: string;
    readonly npmPackage?: string;
  }[];
  readonly npmPackages: Readonly<
    Record<string, {
      readonly name: string;
      readonly version: string;
      readonly dependencies: readonly string[];
    }>
  >;
}

/** What the executable is bundled from: itself, and the page that it serves. */
const ENTRIES = ["main.ts", "roles/cli/page/main.tsx"];

/** Packages of npm that the executable has, and all that those depend on. */
export async function listNpmPackages(): Promise<readonly Component[]> {
  const found = (await Promise.all(ENTRIES.map(graphOf))).flatMap(
    npmPackagesOf,
  );
  return sorted(new Map(found.map((each) => [each.purl, each])));
}

async function graphOf(entry: string): Promise<ModuleGraph> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", entry],
    cwd: ROOT,
  }).output();
  const decoder = new TextDecoder();
  if (!success) {
    throw new ImageError(
      `Cannot list the packages of "${entry}": deno says ${
        decoder.decode(stderr).trim()
      }`,
    );
  }
  return JSON.parse(decoder.decode(stdout));
}

function sorted(found: ReadonlyMap<string, Component>): Component[] {
  return [...found.values()].sort((a, b) => a.purl < b.purl ? -1 : 1);
}

export function npmPackagesOf(graph: ModuleGraph): readonly Component[] {
  const waiting = graph.modules.flatMap((each) => each.npmPackage ?? []);
  const seen = new Set<string>();
  const found = new Map<string, Component>();
  for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
    const known = graph.npmPackages[id];
    if (known === undefined || seen.has(id)) continue;
    seen.add(id);
    waiting.push(...known.dependencies);
    const { name, version } = known;
    const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
    found.set(purl, { name, version, purl }); // one, regardless of its peers
  }
  return sorted(found);
}

/** The list. Pure: the same parts give the same text. */
export function planSbom(parts: SbomParts): string {
  const components = [
    ...parts.debian.map(debianComponent),
    {
      name: "deno",
      version: parts.deno,
      purl: `pkg:github/denoland/deno@v${parts.deno}`,
    },
    ...parts.npm,
  ];
  const coil = describe(
    { name: "coil", version: VERSION, purl: `pkg:generic/coil@${VERSION}` },
    "SPDXRef-coil",
  );
  const packages = components.map((each, i) =>
    describe(each, `SPDXRef-package-${i + 1}`)
  );
  const name = `coil-${VERSION}`;
  const hash = createHash("sha256").update(JSON.stringify(components))
    .digest("hex");
  const document = {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name,
    documentNamespace: `https://spdx.org/spdxdocs/${name}-${hash}`,
    creationInfo: {
      created: new Date(parts.created * 1000).toISOString()
        .replace(".000Z", "Z"),
      creators: [`Tool: coil-task-image-${VERSION}`],
    },
    packages: [coil, ...packages],
    relationships: [
      related("SPDXRef-DOCUMENT", "DESCRIBES", coil.SPDXID),
      ...packages.map(({ SPDXID }) => related(coil.SPDXID, "CONTAINS", SPDXID)),
    ],
  };
  return `${JSON.stringify(document, undefined, 1)}\n`;
}

function debianComponent({ control }: Package): Component {
  const field = (name: string) =>
    new RegExp(`^${name}: (\\S+)`, "m").exec(control)?.[1] ?? "";
  const name = field("Package");
  const version = field("Version");
  const query = `?arch=${field("Architecture")}`;
  return {
    name,
    version,
    purl: `pkg:deb/debian/${encodeURIComponent(name)}@${
      encodeURIComponent(version)
    }${query}`,
  };
}

function describe({ name, version, purl }: Component, id: string) {
  return {
    SPDXID: id,
    name,
    versionInfo: version,
    downloadLocation: "NOASSERTION",
    filesAnalyzed: false,
    externalRefs: [{
      referenceCategory: "PACKAGE-MANAGER",
      referenceType: "purl",
      referenceLocator: purl,
    }],
  };
}

function related(from: string, type: string, to: string) {
  return {
    spdxElementId: from,
    relationshipType: type,
    relatedSpdxElement: to,
  };
}
