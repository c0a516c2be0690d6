// Generates the TypeScript of the protobuf contracts, with protoc (Debian's
// package protobuf-compiler) and protoc-gen-es:
//
//   deno run -A proto/generate.ts           writes lib/*/gen
//   deno run -A proto/generate.ts --check   says whether lib/*/gen is current
//
// Keep the version of the plugin in step with @bufbuild/protobuf in deno.json.

const PLUGIN = "npm:@bufbuild/protoc-gen-es@2.17.0";
const OPTIONS = "target=ts,import_extension=ts,erasable_syntax=true";
const HERE = new URL(".", import.meta.url).pathname;
const ROOT = new URL("..", import.meta.url).pathname;

interface Output {
  readonly folder: string;
  readonly protos: readonly string[];
  readonly files: readonly string[];
}

const OUTPUTS: readonly Output[] = [
  {
    folder: "lib/cnirpc/gen",
    protos: ["cni.proto", "google/rpc/status.proto"],
    files: ["cni_pb.ts", "google/rpc/status_pb.ts"],
  },
  {
    folder: "lib/grpc/gen",
    protos: ["reflection/v1.proto"],
    files: ["reflection/v1_pb.ts"],
  },
  {
    folder: "lib/etcd/gen",
    protos: ["etcd/rpc.proto"],
    files: ["etcd/rpc_pb.ts"],
  },
];

/** Generates `protos` into `out`. */
async function generate(protos: readonly string[], out: string, temp: string) {
  // protoc starts its plugin without arguments: hence the script.
  const plugin = `${temp}/protoc-gen-es`;
  await Deno.writeTextFile(
    plugin,
    `#!/bin/sh\nexec '${Deno.execPath()}' run -A --no-config --no-lock ${PLUGIN}\n`,
    { mode: 0o755 },
  );
  const { success, stderr } = await new Deno.Command("protoc", {
    args: [
      `--plugin=protoc-gen-es=${plugin}`,
      `--proto_path=${HERE}`,
      `--es_out=${out}`,
      `--es_opt=${OPTIONS}`,
      ...protos,
    ],
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) {
    throw new Error(
      `Cannot generate ${protos.join(", ")}: protoc says\n${
        new TextDecoder().decode(stderr)
      }`,
    );
  }
}

/** The plugin's comments repeat the proto files: only `@generated` is kept. */
function withoutComments(text: string): string {
  return text
    .replace(/^ *\/\*\*[\s\S]*?\*\/\n/gm, "")
    .replace(/^\/\/(?! @generated).*\n/gm, "")
    .replace(/\n+(?=\n[ \n])/g, "")
    .trimStart();
}

/** Generates everything below `root` and returns the names of its files. */
export async function generateAll(root: string): Promise<string[]> {
  const temp = await Deno.makeTempDir({ prefix: "coil-proto-" });
  try {
    const written: string[] = [];
    for (const { folder, protos, files } of OUTPUTS) {
      await Deno.mkdir(`${root}/${folder}`, { recursive: true });
      await generate(protos, `${root}/${folder}`, temp);
      for (const file of files.map((file) => `${folder}/${file}`)) {
        const text = await Deno.readTextFile(`${root}/${file}`);
        await Deno.writeTextFile(`${root}/${file}`, withoutComments(text));
        written.push(file);
      }
    }
    return written;
  } finally {
    await Deno.remove(temp, { recursive: true });
  }
}

/** Returns the generated files whose committed text is not current. */
export async function staleFiles(): Promise<string[]> {
  const temp = await Deno.makeTempDir({ prefix: "coil-proto-" });
  try {
    const stale: string[] = [];
    for (const file of await generateAll(temp)) {
      const fresh = await Deno.readTextFile(`${temp}/${file}`);
      const committed = await Deno.readTextFile(`${ROOT}${file}`)
        .catch(() => "");
      if (fresh !== committed) stale.push(file);
    }
    return stale;
  } finally {
    await Deno.remove(temp, { recursive: true });
  }
}

async function main(args: readonly string[]): Promise<void> {
  const say = (text: string) =>
    Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
  if (args.includes("--check")) {
    const stale = await staleFiles();
    for (const file of stale) say(`${file} is not current`);
    Deno.exit(stale.length === 0 ? 0 : 1);
  }
  for (const file of await generateAll(ROOT)) say(file);
}

if (import.meta.main) await main(Deno.args);
