/**
 * Tar archives, written and read.
 *
 * @module
 */
export { type Content, sizeOf, type TarEntry, writeTar } from "./tar.ts";
export { Tree } from "./tree.ts";
export { readTar, TarError } from "./untar.ts";
