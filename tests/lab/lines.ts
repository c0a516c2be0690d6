export { TextLineStream } from "../../deploy/host/mod.ts";
