// docs/architecture.md shows where each thing is: it must name every folder.
import assert from "node:assert/strict";
import { ROOT } from "./ranks.ts";

const text = await Deno.readTextFile(`${ROOT}docs/architecture.md`);

/** `server` and others of the table headed `roles/coild/`. */
function roomsOf(unit: string): string[] {
  const [, table = ""] = text.split(`\n| \`${unit}/\` |`);
  const [rows = ""] = table.split("\n\n");
  return [...rows.matchAll(/^\| `(\w+)`/gm)].map(([, room = ""]) => room);
}

async function foldersOf(unit: string): Promise<string[]> {
  const names: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(`${ROOT}${unit}`)) {
    if (isDirectory && name !== "gen") names.push(name);
  }
  return names;
}

async function* unitsWithRooms(unit: string): AsyncGenerator<string> {
  const rooms = await foldersOf(unit);
  if (rooms.length > 0) yield unit;
  for (const room of rooms) yield* unitsWithRooms(`${unit}/${room}`);
}

Deno.test("docs/architecture.md has a line for each room, and no other", async () => {
  const units = ["deploy/executable", "deploy/image"];
  for (const top of ["lib", "roles"]) {
    units.push(...(await foldersOf(top)).map((unit) => `${top}/${unit}`));
  }
  for (const unit of units) {
    for await (const place of unitsWithRooms(unit)) {
      const folders = await foldersOf(place);
      assert.deepEqual(roomsOf(place).sort(), folders.sort(), place);
    }
  }
});
