// Where a client's packets go by a plan, and where the kernel sends them by
// the same plan's rules and routes. Veth pairs stand for the tunnels.
import assert from "node:assert/strict";
import { planClient, wayOut } from "../../lib/egress/mod.ts";
import { gatewayFor, requestFor } from "../../lib/egress/testing.ts";
import { Address } from "../../lib/inet/mod.ts";
import { formatClientPlan } from "../lab/plan_text/egress_client.ts";
import { type PodLab, podLab, shell } from "./egress_client_lab.ts";
import { netnsTest } from "./testing.ts";

const EVERYWHERE = gatewayFor("a/all", ["0.0.0.0/0", "::/0", "10.5.0.0/16"]);
const OTHER = gatewayFor("b/some", ["203.0.113.0/24", "2001:db8::/32"], {
  service: {
    ipv4: Address.parse("203.0.113.77"),
    ipv6: Address.parse("fd96::20"),
  },
});
const DIRECT = gatewayFor("a/direct", ["0.0.0.0/0", "::/0", "10.5.0.0/16"], {
  direct: ["10.1.9.9", "fd02::99"].map(Address.parse),
});
const NO_GATEWAY = gatewayFor("c/none", ["198.51.100.0/24", "fd05::/16"], {
  available: [],
});
const OPEN = gatewayFor("d/open", ["192.0.2.0/24"], {
  service: { ipv4: Address.parse("10.68.0.9") },
  available: [],
  failurePolicy: "Open",
});

const DESTINATIONS = [
  ...["8.8.8.8", "10.5.1.1", "10.9.9.9", "192.168.1.1", "169.254.7.7"],
  ...["203.0.113.8", "203.0.113.77", "198.51.100.1", "192.0.2.1"],
  ...["2001:db8::1", "2001:4860::1", "fd05::1", "fd77::1", "fe80::9"],
].map(Address.parse);

/** Sets up the rules and routes that the plan has as text. */
async function install(
  { pod }: PodLab,
  plan: ReturnType<typeof planClient>,
): Promise<void> {
  const lines = formatClientPlan(plan).split("\n");
  const links = lines.flatMap((line) =>
    /^ip link add name (\S+)/.exec(line)?.[1] ?? []
  );
  await shell(
    pod,
    [
      ...links.flatMap((name) => [
        `ip link add ${name} type veth`,
        `ip link set ${name} up`,
      ]),
      ...lines.filter((line) => /^ip (-6 )?(rule|route) /.test(line)),
    ].join("\n"),
  );
}

/** The link that the kernel sends a packet to, or "refused". */
async function askKernel({ pod }: PodLab, to: Address): Promise<string> {
  const { code, stdout } = await pod.tryExec(
    ...["ip", "-j", "route", "get", `${to}`] as const,
  );
  if (code !== 0) return "refused";
  return JSON.parse(stdout)[0].dev;
}

for (
  const [name, gateways] of Object.entries({
    "of one Egress for everything": [EVERYWHERE],
    "of two Egresses": [EVERYWHERE, OTHER],
    "that chooses the gateway itself": [DIRECT, OTHER],
    "of Egresses without a gateway": [NO_GATEWAY, OPEN],
    "of all of them": [NO_GATEWAY, EVERYWHERE, OPEN, OTHER],
  })
) {
  netnsTest(
    `wayOut() says where the kernel sends packets of a client ${name}`,
    async () => {
      await using lab = await podLab();
      const plan = planClient(requestFor(gateways));
      await install(lab, plan);
      for (const to of DESTINATIONS) {
        const way = wayOut(plan, to);
        const expected = way.kind === "egress"
          ? way.tunnel.name
          : way.kind === "refused"
          ? "refused"
          : "eth0";
        assert.equal(await askKernel(lab, to), expected, `${to}`);
      }
    },
  );
}
