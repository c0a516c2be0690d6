import type { ClientGateway } from "../../../lib/egress/mod.ts";

/**
 * Gateways of which some were chosen by the client before, and are left to the
 * Service now: connections through them stay, new ones are the Service's.
 */
export function keepChoices(
  gateways: readonly ClientGateway[],
  known: ReadonlyMap<string, ClientGateway>,
): ClientGateway[] {
  return gateways.map((gateway) =>
    gateway.direct === undefined &&
      known.get(gateway.name)?.direct !== undefined
      ? { ...gateway, direct: [] }
      : gateway
  );
}
