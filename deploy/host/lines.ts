/** Turns bytes into lines of text, without their line ends; a last line without an end counts. */
export class TextLineStream extends TransformStream<Uint8Array, string> {
  constructor() {
    const decoder = new TextDecoder();
    let rest = "";
    super({
      transform(chunk, controller) {
        const lines = (rest + decoder.decode(chunk, { stream: true })).split(
          "\n",
        );
        rest = lines.pop() ?? "";
        for (const line of lines) controller.enqueue(line);
      },
      flush(controller) {
        rest += decoder.decode();
        if (rest !== "") controller.enqueue(rest);
      },
    });
  }
}
