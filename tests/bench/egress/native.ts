// Gateways on the machine itself, by a program that lacks the tunnels.
import * as path from "node:path";
import { bundleProgram } from "../../../deploy/executable/modules/bundle.ts";
import { compile } from "../../../deploy/executable/compile/compile.ts";
import { findRuntime } from "../../../deploy/executable/compile/denort.ts";
import { pack } from "../../../deploy/executable/packer/pack.ts";
import { KubeClient } from "../../../lib/kube/mod.ts";
import type { CoilCluster } from "../../lab/coil.ts";
import type { GatewaySite } from "./gateway.ts";
import { EGRESS } from "./objects.ts";

/** Numbers of the lab's nodes that gateways take the place of, one after the other. */
const FIRST_NODE = 20;

/** Makes a program of this directory an executable, as all of Coil is made. */
export async function makeProgram(
  name: "gateway_program" | "client_program",
  dir: string,
): Promise<string> {
  const directory = path.join(dir, `${name}-modules`);
  const output = path.join(dir, name);
  await bundleProgram(`tests/bench/egress/${name}.ts`, directory);
  const entry = `${name}.js`;
  if (await findRuntime() !== undefined) {
    await compile(path.join(directory, entry), { output });
  } else {
    await pack({ deno: Deno.execPath(), directory, entry, output });
  }
  return output;
}

/** Starts gateways in network namespaces of the lab's nodes. */
export async function nativeSite(
  cluster: CoilCluster,
  program: string,
): Promise<GatewaySite & Disposable> {
  const { plane } = cluster;
  const client = await KubeClient.load({
    kubeconfig: plane.kubeconfig,
    fieldManager: "bench",
  });
  return {
    client,
    lookMs: 5,
    async prepare(number) {
      const node = await plane.addNode(FIRST_NODE + number);
      const account = { namespace: EGRESS.namespace, name: "coil-egress" };
      return {
        netns: node.netns,
        addresses: node.addresses,
        start: (env) =>
          plane.startProcess({
            id: `gateway-${number}`,
            node,
            command: program,
            serviceAccount: account,
            env: { ...env },
          }),
        remove: () => node[Symbol.asyncDispose](),
      };
    },
    [Symbol.dispose]: () => client[Symbol.dispose](),
  };
}
