/** Whether there is a file or directory of this name. */
export async function exists(file: string): Promise<boolean> {
  return await Deno.stat(file).then(() => true, (error) => {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  });
}

/** Removes a file or a whole directory, when it is there. */
export async function remove(file: string): Promise<void> {
  await Deno.remove(file, { recursive: true }).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}

/** What is in the file; undefined when there is none. */
export async function readText(file: string): Promise<string | undefined> {
  return await Deno.readTextFile(file).catch((error) => {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  });
}
