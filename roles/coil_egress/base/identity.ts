import { requiredEnv } from "../../../lib/flags/mod.ts";
import { Address, type DualStack, type Family } from "../../../lib/inet/mod.ts";
import {
  EGRESS_NAME_ENV,
  type NamespacedName,
  nameText,
  NODE_NAME_ENV,
  POD_ADDRESSES_ENV,
  POD_NAME_ENV,
  POD_NAMESPACE_ENV,
} from "../../../lib/names/mod.ts";

/** What kubelet sets in every container; cut at 63 characters. */
const HOSTNAME_ENV = "HOSTNAME";

/** Who this gateway is. */
export interface GatewayIdentity {
  /** Namespace of the Egress and of the pod. */
  readonly namespace: string;
  /** Name of the Egress. */
  readonly egress: string;
  /** Name of the pod. */
  readonly pod: string;
  /** Addresses of the pod. */
  readonly addresses: DualStack<Address>;
  /** Name of its node; a template of earlier versions does not say it. */
  readonly node?: string | undefined;
}

/**
 * Reads the environment that the controller gives to gateways. Of several
 * addresses of a family the last one counts.
 *
 * @throws {Error} when a variable is missing or no address
 */
export function readIdentity(
  env: Pick<Deno.Env, "get">,
): GatewayIdentity {
  const required = (name: string) => requiredEnv(name, env);
  const podName = env.get(POD_NAME_ENV) ?? "";
  return {
    namespace: required(POD_NAMESPACE_ENV),
    egress: required(EGRESS_NAME_ENV),
    pod: podName === "" ? required(HOSTNAME_ENV) : podName,
    addresses: parseAddresses(required(POD_ADDRESSES_ENV)),
    node: env.get(NODE_NAME_ENV) || undefined,
  };
}

/** Why a message to the gateways of an Egress is not for this one; undefined when it is. */
export function misdirected(
  asked: NamespacedName,
  own: NamespacedName,
): string | undefined {
  return nameText(asked) === nameText(own)
    ? undefined
    : `this gateway serves Egress "${nameText(own)}"`;
}

function parseAddresses(text: string): DualStack<Address> {
  const addresses: Partial<Record<Family, Address>> = {};
  for (const part of text.split(",")) {
    const address = Address.tryParse(part.trim());
    if (address === undefined) {
      throw new Error(
        `Cannot start: ${POD_ADDRESSES_ENV} has ${
          JSON.stringify(part)
        }, which is not a valid IP address`,
      );
    }
    addresses[address.family] = address;
  }
  return addresses;
}
