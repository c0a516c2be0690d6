import assert from "node:assert/strict";
import { Address } from "../../inet/mod.ts";
import { gatewayFor, requestFor } from "../testing.ts";
import { planClient } from "./plan.ts";
import type { ClientGateway } from "./request.ts";
import { wayOut } from "./way_out.ts";

function wayText(gateways: readonly ClientGateway[], to: string): string {
  const way = wayOut(planClient(requestFor(gateways)), Address.parse(to));
  switch (way.kind) {
    case "egress":
      return `${way.tunnel.gateway} by ${way.destination}`;
    case "refused":
      return `refused by ${way.destination}`;
    case "main":
      return `main by ${way.network}`;
  }
}

const ALL = gatewayFor("a/all", ["0.0.0.0/0", "10.5.0.0/16"]);
const SOME = gatewayFor("b/some", ["203.0.113.0/24"], {
  service: { ipv4: Address.parse("203.0.113.77") },
});
/** The client itself chooses the gateway. */
const DIRECT = gatewayFor("a/direct", ["0.0.0.0/0"], {
  direct: [Address.parse("10.1.9.9")],
});
const CLOSED = gatewayFor("c/closed", ["198.51.100.0/24"], { available: [] });
const OPEN = gatewayFor("d/open", ["192.0.2.0/24"], {
  available: [],
  failurePolicy: "Open",
});

for (
  const [gateways, to, expected] of [
    [[], "8.8.8.8", "main by undefined"],
    [[ALL], "8.8.8.8", "a/all by 0.0.0.0/0"],
    [[ALL], "2001:db8::1", "main by undefined"],
    [[ALL], "169.254.7.7", "main by 169.254.0.0/16"],
    // Of the cluster's own networks only what is named leaves it.
    [[ALL], "10.9.9.9", "main by 10.0.0.0/8"],
    [[ALL], "10.5.9.9", "a/all by 10.5.0.0/16"],
    [[ALL, SOME], "203.0.113.8", "b/some by 203.0.113.0/24"],
    // A tunnel's own packets stay outside of the tunnels.
    [[ALL, SOME], "203.0.113.77", "main by undefined"],
    [[ALL, CLOSED], "198.51.100.1", "refused by 198.51.100.0/24"],
    [[ALL, OPEN], "192.0.2.1", "a/all by 0.0.0.0/0"],
    [[OPEN], "192.0.2.1", "main by undefined"],
    [[DIRECT], "8.8.8.8", "a/direct by 0.0.0.0/0"],
    [[DIRECT], "10.9.9.9", "main by 10.0.0.0/8"],
  ] as const
) {
  Deno.test(
    `wayOut() of a client of ${
      gateways.map(({ name }) => name).join(" and ") || "no Egress"
    } to ${to}`,
    () => {
      assert.equal(wayText(gateways, to), expected);
    },
  );
}

Deno.test("wayOut() names the tunnel to the Service where the client chooses the gateway", () => {
  const way = wayOut(
    planClient(requestFor([DIRECT])),
    Address.parse("8.8.8.8"),
  );
  assert.equal(way.kind === "egress" && `${way.tunnel.remote}`, "10.68.12.49");
});
