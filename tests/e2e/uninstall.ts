// The uninstallation guide's commands, as they stand there, on nodes.
import * as path from "node:path";
import { packSmallImage } from "../lab/cluster/oci_image.ts";
import { binDir, run } from "../lab/mod.ts";
import { type Installation, renderChart } from "./installation.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const BLOCK = /^```sh tested=kustomize\n([^]*?)^```$/gm;
/** Names of images in the guide: that of anyone who installs, and Kubernetes' own. */
const [GUIDES_IMAGE, PAUSE] = [
  "registry.example.com/coil:0.1.0",
  "registry.k8s.io/pause:3.10",
];

/** Steps for resources that only address management has. */
const OF_POOLS = /addresspools/;

/** Does every step of the guide that is for an installation of this way. */
export async function uninstall(site: Installation): Promise<void> {
  const { plane, nodes } = site;
  const pause = await packSmallImage({
    reference: PAUSE,
    executable: path.join(binDir(), "podtool"),
    entrypoint: ["/podtool", "pause"],
  });
  for (const node of nodes) {
    await node.importImage(pause);
    await node.run("ctr", [
      ...["-n", "k8s.io", "images", "tag", "docker.io/library/coil:0.1.0"],
      GUIDES_IMAGE,
    ]);
  }
  const directory = path.join(plane.runDir, "guide");
  await Deno.mkdir(path.join(directory, "cluster"), { recursive: true });
  await Deno.symlink(ROOT, path.join(directory, "coil"));
  await writeInstallation(site, path.join(directory, "cluster"));
  const guide = await Deno.readTextFile(`${ROOT}docs/uninstall.md`);
  for (const [, commands = ""] of guide.matchAll(BLOCK)) {
    if (!site.hasPools && OF_POOLS.test(commands)) continue;
    await run("bash", ["-euo", "pipefail", "-c", commands], {
      cwd: directory,
      env: {
        PATH: `${binDir()}:${Deno.env.get("PATH")}`,
        KUBECONFIG: plane.kubeconfig,
        KUBECACHEDIR: path.join(directory, "kubectl-cache"),
      },
    });
  }
}

/** What stands for the installation in the guide: its kustomization. */
async function writeInstallation(
  { by }: Installation,
  directory: string,
): Promise<void> {
  const resource = by === "chart"
    ? "chart.yaml"
    : `../coil/deploy/overlays/${by.replace("overlay ", "")}`;
  await Deno.writeTextFile(
    path.join(directory, "kustomization.yaml"),
    `resources: [${resource}]\n`,
  );
  if (by !== "chart") return;
  await Deno.writeTextFile(
    path.join(directory, "chart.yaml"),
    await renderChart(),
  );
}
