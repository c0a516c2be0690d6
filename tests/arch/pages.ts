/**
 * The documents for users, and the blocks of code in them.
 *
 * @module
 */

/** The repository, with a slash at its end. */
export const ROOT: string = new URL("../../", import.meta.url).pathname;

const PLACES = ["README.md", "docs", "deploy"];
/** Past decisions have no commands for readers of today. */
const PASSED_OVER = /\/decisions\//;

/** A document. */
export interface Page {
  /** Its path in the repository. */
  readonly path: string;
  readonly text: string;
}

/** A fenced block of code. */
export interface Block {
  /** Path of its document. */
  readonly page: string;
  /** What follows the fence: the language, and who runs it. */
  readonly info: string;
  /** Without the indentation of the fence. */
  readonly text: string;
}

const FENCE = /^( *)```(.*)\n([^]*?)^\1```$/gm;

/** Reads all documents. */
export async function readPages(): Promise<Page[]> {
  const paths = (await Promise.all(PLACES.map(pathsBelow))).flat();
  return await Promise.all(paths.map(async (path) => ({
    path,
    text: await Deno.readTextFile(ROOT + path),
  })));
}

async function pathsBelow(place: string): Promise<string[]> {
  const { isFile } = await Deno.stat(ROOT + place);
  if (isFile) return [place];
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(ROOT + place)) {
    const path = `${place}/${name}`;
    if (isDirectory) found.push(...await pathsBelow(path));
    else if (name.endsWith(".md") && !PASSED_OVER.test(path)) found.push(path);
  }
  return found.sort();
}

/** The fenced blocks of a document. */
export function blocksOf({ path, text }: Page): Block[] {
  return [...text.matchAll(FENCE)].map(
    ([, indent = "", info = "", body = ""]) => ({
      page: path,
      info,
      text: body.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
    }),
  );
}

/** The text without its fenced blocks. */
export function withoutCode(text: string): string {
  return text.replaceAll(FENCE, "");
}

/** Lines outside of fences that Markdown shows as code because of their indentation. */
export function indentedLines({ text }: Page): string[] {
  return withoutCode(text).split("\n")
    .filter((line) => /^( {4}|\t)\s*\S/.test(line));
}

/** What is in code within sentences and tables. */
export function codeSpans({ text }: Page): string[] {
  return [...withoutCode(text).matchAll(/`([^`\n]+)`/g)]
    .map(([, code = ""]) => code.replaceAll("\\|", "|"));
}

/** Commands of a program in sentences, in code; not its name alone. */
export function inlineCommands(page: Page, program: string): string[] {
  return codeSpans(page).filter((code) => code.startsWith(`${program} `));
}

/** Whether a block has commands. */
export function hasCommands({ info }: Block): boolean {
  return /^(sh|console|bash)\b/.test(info);
}

/** What is typed: behind a prompt if there is one, before a remark. */
const PROMPT = /^[$#] (.*?)(?: {2,}#.*)?$/gm;

/** The commands of a block as a script. */
export function scriptOf({ info, text }: Block): string {
  if (!info.startsWith("console")) return text;
  const typed = [...text.matchAll(PROMPT)].map(([, command]) => command);
  return typed.length > 0 ? typed.join("\n") : text;
}

/** The commands of a script, one a line: continued lines are joined. */
function commandsOf(block: Block): string[] {
  return scriptOf(block).replaceAll(/ *\\\n */g, " ").split("\n")
    .map((line) => line.replace(/ {2,}#.*$/, "").trim())
    .filter((line) => line !== "");
}

/** The blocks that a document says this test runs. @throws {RangeError} when there is none */
async function testedBlocks(page: string, test: string): Promise<Block[]> {
  const path = new URL(test).pathname.slice(ROOT.length);
  const text = await Deno.readTextFile(ROOT + page);
  const blocks = blocksOf({ path: page, text })
    .filter(({ info }) => info.endsWith(` tested-by=${path}`));
  if (blocks.length > 0) return blocks;
  throw new RangeError(`Cannot find a block of ${page} for ${path}`);
}

/** The commands that a document says this test runs, block by block. */
export async function testedCommands(
  page: string,
  test: string,
): Promise<string[][]> {
  return (await testedBlocks(page, test)).map(commandsOf);
}

/** The same, each with what the document says that it prints. */
export async function testedSessions(
  page: string,
  test: string,
): Promise<{ readonly command: string; readonly output: string }[]> {
  const blocks = await testedBlocks(page, test);
  return blocks.flatMap(({ text }) => text.split(/^\$ /m).slice(1))
    .map((session) => {
      const [command = "", ...output] = session.trim().split("\n");
      return { command, output: `${output.join("\n")}\n` };
    });
}
