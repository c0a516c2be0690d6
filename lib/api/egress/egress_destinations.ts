import { Prefix } from "../../inet/mod.ts";

/** The destinations of an Egress, parsed. */
export interface EgressDestinations {
  /** Each once, in the order of the spec, without host bits. */
  readonly prefixes: readonly Prefix[];
  /** Texts that are not CIDRs; the API server rejects these. */
  readonly invalid: readonly string[];
  /** What an admin may have meant otherwise, in sentences. */
  readonly remarks: readonly string[];
}

/**
 * Reads the destinations of an Egress. One inside another is not a mistake: of
 * `0.0.0.0/0` and `10.0.0.0/8`, the second takes a private network out of the
 * cluster's own routes.
 */
export function parseDestinations(
  destinations: readonly string[],
): EgressDestinations {
  const prefixes = new Map<string, Prefix>();
  const invalid: string[] = [];
  const remarks: string[] = [];
  for (const text of destinations) {
    const prefix = Prefix.tryParse(text);
    if (prefix === undefined) {
      invalid.push(text);
      continue;
    }
    const canonical = prefix.toString();
    if (prefixes.has(canonical)) {
      remarks.push(`${text} is duplicated`);
    } else if (hasHostBits(text, prefix)) {
      remarks.push(`${text} has host bits and means ${canonical}`);
    }
    prefixes.set(canonical, prefix);
  }
  return { prefixes: [...prefixes.values()], invalid, remarks };
}

function hasHostBits(text: string, prefix: Prefix): boolean {
  const [address = ""] = text.split("/");
  const host = Prefix.tryParse(`${address}/${prefix.address.bits}`);
  return host !== undefined && !host.address.equals(prefix.address);
}
