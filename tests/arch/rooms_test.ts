// docs/architecture.md shows where each thing is: it must name every folder,
// and what lies beside folders.
import assert from "node:assert/strict";
import { ROOT } from "./ranks.ts";
import { documentedFiles, documentedRooms } from "./rooms.ts";

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

/** Units that are cut into rooms, and rooms that are. */
async function* placesWithRooms(): AsyncGenerator<string> {
  const units = ["deploy/executable", "deploy/image"];
  for (const top of ["lib", "roles"]) {
    units.push(...(await foldersOf(top)).map((unit) => `${top}/${unit}`));
  }
  for (const unit of units) yield* unitsWithRooms(unit);
}

Deno.test("docs/architecture.md has a line for each room, and no other", async () => {
  for await (const place of placesWithRooms()) {
    const folders = await foldersOf(place);
    assert.deepEqual(documentedRooms(place).sort(), folders.sort(), place);
  }
});

/** The architecture says in a sentence what these are. */
const USUAL = /(?:^(?:mod|flags|testing)|_part|_test)\.ts$/;

Deno.test("docs/architecture.md has a line for each other file beside rooms, and no other", async () => {
  const beside: string[] = [];
  for await (const place of placesWithRooms()) {
    for await (const { name, isFile } of Deno.readDir(`${ROOT}${place}`)) {
      if (!isFile || !/\.tsx?$/.test(name) || USUAL.test(name)) continue;
      beside.push(`${place}/${name}`);
    }
  }
  assert.ok(beside.length > 10);
  assert.deepEqual(documentedFiles().sort(), beside.sort());
});
