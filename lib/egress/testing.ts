import { Address, FAMILIES, Prefix } from "../inet/mod.ts";
import type { ClientGateway, ClientRequest } from "./plan/request.ts";

/** Addresses of the pod in tests. */
export const POD: { readonly ipv4: Address; readonly ipv6: Address } = {
  ipv4: Address.parse("10.1.2.3"),
  ipv6: Address.parse("fd02::1"),
};

/** A gateway with the destinations, available in both families unless changed. */
export function gatewayFor(
  name: string,
  destinations: readonly string[],
  changes: Partial<ClientGateway> = {},
): ClientGateway {
  return {
    name,
    service: {
      ipv4: Address.parse("10.68.12.49"),
      ipv6: Address.parse("fd96::10"),
    },
    destinations: destinations.map(Prefix.parse),
    sourcePortAuto: true,
    senders: ["10.1.9.9", "fd02::99"].map(Address.parse),
    available: FAMILIES,
    failurePolicy: "Closed",
    ...changes,
  };
}

/** A request of a pod with both families and these gateways. */
export function requestFor(
  gateways: readonly ClientGateway[],
  changes: Partial<ClientRequest> = {},
): ClientRequest {
  return {
    addresses: POD,
    ifname: "eth0",
    mtu: 1500,
    port: 5555,
    gateways,
    originatingOnly: false,
    ...changes,
  };
}

export { ProbedGateways } from "./probing/testing.ts";
