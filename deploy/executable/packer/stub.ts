import { compileC, CompilerError } from "../elf/compiler.ts";
import { Elf } from "../elf/elf.ts";

const SOURCE = new URL("stub.c", import.meta.url).pathname;
const SCRIPT = new URL("stub.ld", import.meta.url).pathname;

/** Compiles stub.c; returns its only segment. @throws {CompilerError} */
export async function compileStub(): Promise<Uint8Array> {
  const stub = new Elf(await compileC(SOURCE, ["-T", SCRIPT]));
  const [image] = stub.loads;
  if (image === undefined) throw new CompilerError("stub.c gave no code");
  const end = Number(image.offset + image.filesz);
  return stub.bytes.subarray(Number(image.offset), end);
}
