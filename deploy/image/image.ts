// deno task image [--out FILE | --rootfs DIR] [--ref NAME:TAG] …
import * as path from "node:path";
import { parseArgs } from "node:util";
import { refuseTask } from "../../lib/flags/mod.ts";
import { explainWriteError } from "./base/errors.ts";
import {
  buildImage,
  buildRootfs,
  type Compression,
  DEFAULT_REFERENCE,
  ImageError,
} from "./mod.ts";

const OUT = "dist/coil-image.tar";

const USAGE = `usage: deno task image [--out FILE] [--ref NAME:TAG]

Makes the container image, without a container engine, as an archive for
\`ctr -n k8s.io images import\`, \`docker load\`, \`podman load\` or
\`skopeo copy oci-archive:FILE\`. Needs apt-get, dpkg-deb and a Debian mirror.

  --out FILE           where to put it (default: ${OUT})
  --ref NAME:TAG       the image's name (default: ${DEFAULT_REFERENCE})
  --label KEY=VALUE    one more label; can be given again
  --executable FILE    what to put into it (default: what \`task build\` makes)
  --compression KIND   gzip (default) or none, which is faster and larger
  --refresh            asks the mirror for newer Debian packages
  --rootfs DIR         writes the image's files there instead, for the Dockerfile
  --help               this text

SOURCE_DATE_EPOCH  seconds since 1970: the time of the image and of all its files (default: 0)
COIL_CACHE         where packages, layers and images are kept (default: ~/.cache/coil)
`;

const say = (text: string) =>
  Deno.stdout.writeSync(new TextEncoder().encode(text));

function parse() {
  try {
    return parseArgs({
      args: Deno.args,
      options: {
        out: { type: "string" },
        ref: { type: "string", default: DEFAULT_REFERENCE },
        label: { type: "string", multiple: true, default: [] },
        executable: { type: "string" },
        compression: { type: "string", default: "gzip" },
        refresh: { type: "boolean", default: false },
        rootfs: { type: "string" },
        help: { type: "boolean", short: "h", default: false },
      },
    }).values;
  } catch (error) {
    refuseTask("image", error);
  }
}

function labelsOf(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(texts.map((text) => {
    const at = text.indexOf("=");
    if (at <= 0) {
      refuseTask("image", `Cannot read label "${text}": it is not KEY=VALUE`);
    }
    return [text.slice(0, at), text.slice(at + 1)];
  }));
}

function compressionOf(text: string): Compression {
  if (text === "gzip" || text === "none") return text;
  refuseTask("image", `Cannot compress with "${text}": it is gzip or none`);
}

/** Never into a file that another process may be reading. */
async function copyTo(out: string, from: string): Promise<void> {
  try {
    await Deno.mkdir(path.dirname(path.resolve(out)), { recursive: true });
    await Deno.copyFile(from, `${out}.tmp`);
    await Deno.rename(`${out}.tmp`, out);
  } catch (error) {
    await Deno.remove(`${out}.tmp`).catch(() => {}); // it may not even exist
    explainWriteError(error, out);
  }
}

async function main(): Promise<void> {
  const { ref, label, rootfs, out, help, ...rest } = parse();
  if (help) return void say(USAGE);
  if (rootfs !== undefined && out !== undefined) {
    refuseTask("image", "Cannot write both --out and --rootfs: choose one");
  }
  const files = { ...rest, log: (text: string) => void say(`${text}\n`) };
  if (rootfs !== undefined) {
    await buildRootfs(rootfs, files);
    say(`${rootfs}\n`);
    return;
  }
  const image = await buildImage({
    ...files,
    reference: ref,
    compression: compressionOf(rest.compression),
    labels: labelsOf(label),
  });
  await copyTo(out ?? OUT, image.path);
  say(`${out ?? OUT}\n${image.reference}@${image.digest}\n`);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof ImageError)) throw error;
  Deno.stderr.writeSync(new TextEncoder().encode(`${error.message}\n`));
  Deno.exit(1);
}
