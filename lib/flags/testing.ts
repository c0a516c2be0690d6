/**
 * What tests of roles' flags share.
 *
 * @module
 */
import type { FlagSpec } from "./spec.ts";
import { defaultText, helpOf, visibleFlags } from "./usage.ts";

/** Returns the visible flags as a Markdown table, for the documentation of a role. */
export function flagsMarkdown(spec: FlagSpec): string {
  const rows = visibleFlags(spec).map(([name, flag]) => {
    const value = defaultText(flag);
    const help = helpOf(flag).replaceAll("|", "\\|");
    return `| \`--${name}\` | ${flag.type} | ${
      value === "" ? "" : `\`${value}\``
    } | ${help} |`;
  });
  return [
    "| Flag | Type | Default | Meaning |",
    "| --- | --- | --- | --- |",
    ...rows,
    "",
  ].join("\n");
}
