/**
 * Rooms as docs/architecture.md has them.
 *
 * @module
 */
import { ROOT } from "./ranks.ts";

const text = await Deno.readTextFile(`${ROOT}docs/architecture.md`);

/** First cells of the rows of the table with this head, without their quotes. */
function rowsOf(head: string): string[] {
  const [, table = ""] = text.split(`\n| ${head} |`);
  const [rows = ""] = table.split("\n\n");
  return [...rows.matchAll(/^\| `([\w/.]+)`/gm)].map(([, name = ""]) => name);
}

/** `server` and others of the table headed `roles/coild/`, from the bottom. */
export function documentedRooms(unit: string): string[] {
  return rowsOf(`\`${unit}/\``);
}

/** The paths of files beside rooms that are explained one by one. */
export function documentedFiles(): string[] {
  return rowsOf("file beside rooms");
}
