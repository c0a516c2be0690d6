/**
 * Tar archives, written and read.
 *
 * @module
 */
export { sizeOf, type TarEntry, writeTar } from "./tar.ts";
export { Tree } from "./tree.ts";
export { readTar } from "./untar.ts";
