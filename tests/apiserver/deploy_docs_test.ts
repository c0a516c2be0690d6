// The commands of the installation guide, run as they stand there. Blocks that
// no test can run have to say so.
import assert from "node:assert/strict";
import * as path from "node:path";
import { ensureHelm } from "../lab/helm.ts";
import { binDir, ControlPlane, run } from "../lab/mod.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const PAGES = ["install", "uninstall"];

/** A block of commands. */
interface Block {
  readonly page: string;
  readonly info: string;
  readonly text: string;
}

const NOT_TESTED = /^# not tested here: \S/;

async function blocks(): Promise<Block[]> {
  const found: Block[] = [];
  for (const page of PAGES) {
    const text = await Deno.readTextFile(`${ROOT}docs/${page}.md`);
    for (const [, info = "", body = ""] of text.matchAll(FENCE)) {
      found.push({ page, info, text: body });
    }
  }
  return found;
}

const FENCE = /^```(.*)\n([^]*?)^```$/gm;

Deno.test("a block of commands in the guide is run by a test, or says that it is not", async () => {
  const all = await blocks();
  assert.ok(all.length > 8);
  for (const { page, info, text } of all) {
    const isTested = /^sh tested=[a-z-]+$/.test(info);
    assert.ok(
      isTested || info === "sh" && NOT_TESTED.test(text),
      `${page}: ${info}\n${text}`,
    );
  }
});

/** A directory with what the guide takes for granted: the repository as "coil", and the programs. */
async function workplace(plane: ControlPlane): Promise<string> {
  const directory = path.join(plane.runDir, "guide");
  await Deno.mkdir(path.join(directory, "bin"), { recursive: true });
  await Deno.symlink(ROOT, path.join(directory, "coil"));
  const programs = {
    kubectl: path.join(binDir(), "kubectl"),
    helm: await ensureHelm(),
  };
  for (const [name, file] of Object.entries(programs)) {
    await Deno.symlink(file, path.join(directory, "bin", name));
  }
  return directory;
}

const groups = new Set(
  (await blocks()).flatMap(({ info }) => info.split("tested=")[1] ?? []),
);

for (const group of groups) {
  Deno.test(`the guide's commands work: ${group}`, async () => {
    await using plane = await ControlPlane.start({
      name: `guide-${group}`.slice(0, 12).replace(/-$/, ""),
      controllerManager: true,
    });
    const directory = await workplace(plane);
    for (const { info, text } of await blocks()) {
      if (!info.endsWith(`tested=${group}`)) continue;
      await run("bash", ["-euo", "pipefail", "-c", text], {
        cwd: directory,
        env: {
          PATH: `${directory}/bin:${Deno.env.get("PATH")}`,
          KUBECONFIG: plane.kubeconfig,
          KUBECACHEDIR: path.join(directory, "kubectl-cache"),
          HELM_CACHE_HOME: path.join(directory, "helm"),
          HELM_CONFIG_HOME: path.join(directory, "helm"),
          HELM_DATA_HOME: path.join(directory, "helm"),
        },
      });
    }
  });
}
