/** `up NAME` starts a control plane that outlives the command, `down NAME` removes it, `build` only prepares. */
import { cleanUp, ControlPlane, ensureControlPlane, keepLab } from "./mod.ts";

function print(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}

const [verb, name] = Deno.args;
if (verb === "build") {
  await ensureControlPlane({ log: print });
} else if (verb === "up" && name !== undefined) {
  const nodes = Number(Deno.args[2] ?? 0);
  const started = performance.now();
  const plane = await ControlPlane.start({
    name,
    audit: "metadata",
    controllerManager: true,
    log: print,
  });
  for (let n = 1; n <= nodes; n++) {
    const node = await plane.addNode(n);
    print(`node ${node.name}: ${node.addresses.join(", ")} in ${node.netns}`);
  }
  await keepLab(name);
  print(`up in ${Math.round(performance.now() - started)} ms: ${plane.url}`);
  print(`export KUBECONFIG=${plane.kubeconfig}`);
  Deno.exit(0);
} else if (verb === "down" && name !== undefined) {
  await cleanUp(name, { log: print });
} else {
  print("usage: main.ts build | up NAME [NODES] | down NAME");
  Deno.exit(2);
}
