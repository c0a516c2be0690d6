import { Prefix } from "../../../lib/inet/mod.ts";

/** CIDRs of a text with commas between them, each once; invalid ones are left out. */
export function cidrsIn(text: unknown): string[] {
  if (typeof text !== "string") return [];
  return unique(text.split(","));
}

/** The CIDRs among these, each once, in their order. */
export function unique(texts: readonly unknown[]): string[] {
  const found = texts.flatMap((text) => {
    const prefix = typeof text === "string"
      ? Prefix.tryParse(text.trim())
      : undefined;
    return prefix === undefined ? [] : [prefix.toString()];
  });
  return [...new Set(found)];
}
