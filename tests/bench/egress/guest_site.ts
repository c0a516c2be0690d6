// Gateways in the virtual machine: the real executable, beside the router.
import * as path from "node:path";
import { run } from "../../lab/mod.ts";
import { spawnProcess } from "../../lab/process.ts";
import { writeServiceAccountDir } from "../../lab/service_account.ts";
import type { VmAccess } from "../../vm/e2e_access.ts";
import type { GatewaySite } from "./gateway.ts";
import { EGRESS } from "./objects.ts";

const TOKEN_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Starts gateways on the bridge of `createTopology()`. */
export function guestSite(access: VmAccess, executable: string): GatewaySite {
  return {
    client: access.client,
    lookMs: 20,
    async prepare(number) {
      const netns = `gateway${number}`;
      const addresses = [`172.31.0.${50 + number}`, `fd31::${50 + number}`];
      await makeNetns(netns, addresses);
      const command = path.join(access.runDir, "coil-egress");
      if (number === 0) await Deno.symlink(executable, command);
      const account = { namespace: EGRESS.namespace, name: "coil-egress" };
      const source = await writeServiceAccountDir(access.admin, account);
      await Deno.mkdir(TOKEN_DIR, { recursive: true });
      return {
        netns,
        addresses,
        start: (env) =>
          spawnProcess({
            id: netns,
            runDir: access.runDir,
            netns,
            command,
            args: [],
            env: { ...access.inClusterEnv, ...env },
            mounts: [{ source, target: TOKEN_DIR }],
          }),
        async remove(): Promise<void> {
          await run("ip", ["link", "delete", `${netns}p`]);
          await run("ip", ["netns", "delete", netns]);
        },
      };
    },
  };
}

async function makeNetns(
  netns: string,
  [ipv4, ipv6]: readonly string[],
): Promise<void> {
  await run("ip", ["netns", "add", netns]);
  await run("ip", ["-batch", "-"], {
    stdin: `link add ${netns}p type veth peer name eth0 netns ${netns}
link set ${netns}p master fabric up`,
  });
  await run("ip", ["-n", netns, "-batch", "-"], {
    stdin: `link set lo up
address add ${ipv4}/24 dev eth0
address add ${ipv6}/64 dev eth0 nodad
link set eth0 up
route add default via 172.31.0.1
route add default via fd31::1`,
  });
}
