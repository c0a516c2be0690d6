import { Prefix } from "../../../lib/inet/mod.ts";

/** The API server has an answer, and no one can say what it means. */
export class CidrsUnknownError extends Error {
  override readonly name = "CidrsUnknownError";
}

/**
 * CIDRs of a text with commas between them, each once; `source` has the text.
 *
 * @throws {CidrsUnknownError} as {@linkcode cidrsAmong}
 */
export function cidrsIn(text: unknown, source: string): string[] {
  return cidrsAmong(
    typeof text === "string" ? text.split(",") : [text],
    source,
  );
}

/**
 * The CIDRs among these, each once, in their order. Others are left out.
 *
 * @throws {CidrsUnknownError} when there are others alone: that is not the same as none
 */
export function cidrsAmong(
  texts: readonly unknown[],
  source: string,
): string[] {
  const given = texts.map((text) => `${text ?? ""}`.trim())
    .filter((text) => text !== "");
  const found = given.flatMap((text) => Prefix.tryParse(text) ?? []);
  if (found.length === 0 && given.length > 0) {
    throw new CidrsUnknownError(
      `${source} has no valid CIDR: "${given.join(",")}"`,
    );
  }
  return [...new Set(found.map(String))];
}
