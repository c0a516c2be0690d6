export { CommandError, run, type RunOptions } from "../../deploy/host/mod.ts";
