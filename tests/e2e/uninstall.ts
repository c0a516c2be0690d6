// The uninstallation guide's commands, as they stand there, on nodes.
import * as path from "node:path";
import { packSmallImage } from "../lab/cluster/oci_image.ts";
import { binDir, run } from "../lab/mod.ts";
import { type Installation, renderChart } from "./installation.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const BLOCK = /^```sh tested=kustomize\n([^]*?)^```$/gm;
/** Names of images in the guide: that of whoever installs, and Kubernetes' own. */
const [GUIDES_IMAGE, PAUSE] = [
  "registry.example.com/coil:0.1.0",
  "registry.k8s.io/pause:3.10",
];

/** Uninstalls what was installed by the chart. */
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
  // What stands for the installation there.
  await Deno.writeTextFile(
    path.join(directory, "cluster/kustomization.yaml"),
    "resources: [chart.yaml]\n",
  );
  await Deno.writeTextFile(
    path.join(directory, "cluster/chart.yaml"),
    await renderChart(),
  );
  const guide = await Deno.readTextFile(`${ROOT}docs/uninstall.md`);
  for (const [, commands = ""] of guide.matchAll(BLOCK)) {
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
