// The one-way rule on the real module graph: see docs/architecture.md.
import assert from "node:assert/strict";
import { fromFileUrl, rankOf, ROOT, unitOf } from "./ranks.ts";
import { documentedRooms } from "./rooms.ts";

interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly Dependency[];
}
interface Dependency {
  readonly specifier: string;
  readonly isDynamic?: boolean;
  readonly code?: { readonly specifier?: string };
  readonly type?: { readonly specifier?: string };
}
interface Edge {
  readonly from: string;
  readonly to: string;
  readonly specifier: string;
  readonly dynamic: boolean;
}

async function graph(
  entry: string,
): Promise<{ files: string[]; edges: Edge[] }> {
  const info = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", entry],
    cwd: ROOT,
    stderr: "null",
  }).output();
  assert.ok(info.success, `deno info of ${entry} failed`);
  const modules: Module[] =
    JSON.parse(new TextDecoder().decode(info.stdout)).modules;
  const edges: Edge[] = [];
  for (const { specifier, dependencies } of modules) {
    const from = fromFileUrl(specifier);
    if (from === undefined) continue;
    for (const d of dependencies ?? []) {
      const target = d.code?.specifier ?? d.type?.specifier ?? d.specifier;
      const to = fromFileUrl(target) ?? target;
      edges.push({
        from,
        to,
        specifier: d.specifier,
        dynamic: d.isDynamic ?? false,
      });
    }
  }
  const files = modules.flatMap((m) => fromFileUrl(m.specifier) ?? []);
  return { files, edges };
}

async function sources(dir: string): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of Deno.readDir(`${ROOT}${dir}`)) {
    const path = `${dir}/${entry.name}`;
    if (entry.isDirectory) found.push(...await sources(path));
    else if (entry.name.endsWith(".ts")) found.push(path);
  }
  return found;
}

/** The edges that are part of a cycle, or lead from one to another. */
function cycles(
  edges: readonly Edge[],
  nodeOf: (file: string) => string | undefined,
): string[] {
  let left = edges;
  for (;;) {
    const from = new Set(left.map((e) => nodeOf(e.from)));
    const to = new Set(left.map((e) => nodeOf(e.to)));
    const rest = left.filter((e) =>
      from.has(nodeOf(e.to)) && to.has(nodeOf(e.from))
    );
    if (rest.length === left.length) break;
    left = rest;
  }
  return left.map((e) => `${e.from} imports ${e.to}`);
}

const { files, edges } = await graph("main.ts");
/** It runs in a browser; main.ts has it as a text. */
const page = await graph("roles/cli/page/main.tsx");
const local = localOf([...edges, ...page.edges]);
const building = [
  ...localOf((await graph("deploy/executable/build.ts")).edges),
  ...localOf((await graph("deploy/image/image.ts")).edges),
];

function localOf(edges: readonly Edge[]): readonly Edge[] {
  return edges.filter((e) => !/^(npm|node|jsr|https?):/.test(e.to));
}

Deno.test("layers: every import points to a strictly lower rank", () => {
  const wrong = local
    .filter((e) => unitOf(e.from) !== unitOf(e.to))
    .filter((e) => rankOf(e.to) >= rankOf(e.from))
    .map((e) => `${e.from} imports ${e.to}`);
  assert.deepEqual(wrong, []);
});

Deno.test("layers: outsiders enter a unit by its door", () => {
  const door = /\/(mod|testing)\.ts$/;
  const wrong = local
    .filter((e) => unitOf(e.from) !== unitOf(e.to))
    .filter((e) => !door.test(e.to))
    .map((e) => `${e.from} imports ${e.to}`);
  assert.deepEqual(wrong, []);
});

/** Folders that have folders: their rooms. What lies beside those wires them together. */
async function roomed(dir: string): Promise<string[]> {
  const rooms: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(`${ROOT}${dir}`)) {
    if (isDirectory && name !== "gen") rooms.push(`${dir}/${name}`);
  }
  const within = await Promise.all(rooms.map(roomed));
  return [...rooms.length > 0 ? [dir] : [], ...within.flat()].sort();
}

/** `lib` and others hold units, not rooms. */
const TOPS = ["deploy", "lib", "roles"];
const ROOMED = (await Promise.all(TOPS.map(roomed))).flat()
  .filter((dir) => !TOPS.includes(dir) && edgesWithin(dir).length > 0);

function edgesWithin(unit: string): readonly Edge[] {
  return [...local, ...building].filter(({ from, to }) =>
    [from, to].every((file) => file.startsWith(`${unit}/`))
  );
}

Deno.test("layers: rooms are found", () => {
  for (
    const unit of [
      "deploy/executable",
      "lib/netlink/netfilter",
      "lib/grpc",
      "roles/coild",
    ]
  ) {
    assert.ok(ROOMED.includes(unit), unit);
  }
  assert.ok(ROOMED.length > 12);
});

for (const unit of ROOMED) {
  /** `cluster` of `roles/coild/cluster/transform.ts`; undefined of `roles/coild/mod.ts`. */
  const roomOf = (file: string): string | undefined => {
    const [room, ...rest] = file.slice(unit.length + 1).split("/");
    return rest.length > 0 ? room : undefined;
  };
  const between = edgesWithin(unit).filter((e) =>
    roomOf(e.from) !== undefined && roomOf(e.from) !== roomOf(e.to)
  );

  Deno.test(`layers: rooms of ${unit} import nothing of what wires them`, () => {
    const wrong = between.filter((e) => roomOf(e.to) === undefined)
      .map((e) => `${e.from} imports ${e.to}`);
    assert.deepEqual(wrong, []);
  });

  Deno.test(`layers: no cycle between the rooms of ${unit}`, () => {
    assert.deepEqual(cycles(between, roomOf), []);
  });

  Deno.test(`layers: rooms of ${unit} import those that docs/architecture.md has above them`, () => {
    const order = documentedRooms(unit);
    // What is generated has no row, and is below all others.
    const rowOf = (file: string) => order.indexOf(roomOf(file) ?? "");
    const wrong = between.filter((e) => rowOf(e.to) >= rowOf(e.from))
      .map((e) => `${e.from} imports ${e.to}`);
    assert.deepEqual(wrong, []);
  });
}

Deno.test("layers: no cycle between files, imports of types included", () => {
  const ofStart = [...local, ...building].filter((e) => !e.dynamic);
  assert.deepEqual(cycles(ofStart, (file) => file), []);
});

Deno.test("layers: main.ts reaches roles by dynamic import only", () => {
  const fromMain = local.filter((e) =>
    e.from === "main.ts" && e.to.startsWith("roles/")
  );
  assert.ok(fromMain.length > 0);
  assert.deepEqual(fromMain.filter((e) => !e.dynamic), []);
});

Deno.test("layers: every role can be reached from main.ts", async () => {
  const roles: string[] = [];
  for await (const entry of Deno.readDir(`${ROOT}roles`)) {
    roles.push(`roles/${entry.name}/mod.ts`);
  }
  assert.deepEqual(roles.filter((r) => !files.includes(r)), []);
});

Deno.test("layers: the graph holds every source file of lib and roles", async () => {
  const all = [...await sources("lib"), ...await sources("roles")];
  const dead = all.filter((f) =>
    !/_test\.ts$|\/testing(\.ts|\/)|_bench\.ts$/.test(f) &&
    !files.includes(f) && !page.files.includes(f)
  );
  assert.deepEqual(dead, []);
});

Deno.test("layers: special imports stay in their rooms", async () => {
  const rooms: readonly [RegExp, RegExp][] = [
    [/\bDeno\.dlopen\b/, /^lib\/linux\//],
    [/from "aws4fetch"/, /^lib\/aws\//],
    [/\bDeno\.createHttpClient\b/, /^lib\/(announce|aws|kube)\//],
    [/[^.\w]fetch\(/, /^(lib\/(announce|aws|kube)|roles\/coil_probe)\//],
  ];
  const wrong: string[] = [];
  for (const file of [...await sources("lib"), ...await sources("roles")]) {
    if (file.endsWith("_test.ts")) continue;
    const text = await Deno.readTextFile(`${ROOT}${file}`);
    const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
    for (const [what, room] of rooms) {
      if (what.test(code) && !room.test(file)) wrong.push(`${file}: ${what}`);
    }
  }
  assert.deepEqual(wrong, []);
});

/** The files and packages that are loaded with a file, before anything is imported later. */
function loadedWith(file: string): ReadonlySet<string> {
  const reached = new Set([file]);
  for (const one of reached) {
    for (const e of edges.filter((e) => e.from === one && !e.dynamic)) {
      reached.add(e.to);
    }
  }
  return reached;
}

Deno.test("layers: the CNI plugin and what it reaches load no package", () => {
  const reached = [...loadedWith("roles/coil/mod.ts")];
  assert.deepEqual(reached.filter((to) => to.startsWith("npm:")), []);
  assert.ok(reached.length > 3);
});

const OF_VPC = /^(lib\/(aws|vpc)|roles\/coild\/vpc_report)\//;

for (
  const [role, what, rooms, part] of [
    ["coild", "VPCs need", OF_VPC, "vpc_part.ts"],
    ["coil_controller", "VPCs need", OF_VPC, "vpc_part.ts"],
    [
      "coild",
      "the coordinator needs",
      /^(lib|roles\/coild)\/coordinator\//,
      "coordinator_part.ts",
    ],
    [
      "coild",
      "other plugins' pods need",
      /^roles\/coild\/pods\/chained_pods\.ts$/,
      "chained_part.ts",
    ],
  ] as const
) {
  Deno.test(`layers: ${role} loads what ${what} only when asked to`, () => {
    const ofPart = (file: string) => rooms.test(file);
    const reached = [...loadedWith(`roles/${role}/mod.ts`)];
    assert.deepEqual(reached.filter(ofPart), []);
    assert.ok([...loadedWith(`roles/${role}/${part}`)].some(ofPart));
  });
}

Deno.test("layers: ground and protocols know no word of Coil", async () => {
  const words =
    /\b(AddressBlock|AddressPool|BlockRequest|coild|egress(es)?)\b/i;
  const wrong: string[] = [];
  for (const file of await sources("lib")) {
    if (rankOf(file) > 2 || file.endsWith("_test.ts")) continue;
    const text = await Deno.readTextFile(`${ROOT}${file}`);
    if (words.test(text)) wrong.push(`${file}: ${words.exec(text)?.[0]}`);
  }
  assert.deepEqual(wrong, []);
});
