/** The readers that requests and responses have in common, of a body that is made once it is read. */
export abstract class BodyReaders {
  /** Called for each read. */
  protected abstract whole(): Response;

  arrayBuffer(): Promise<ArrayBuffer> {
    return this.whole().arrayBuffer();
  }

  blob(): Promise<Blob> {
    return this.whole().blob();
  }

  bytes(): Promise<Uint8Array<ArrayBuffer>> {
    return this.whole().bytes();
  }

  formData(): Promise<FormData> {
    return this.whole().formData();
  }

  json(): Promise<unknown> {
    return this.whole().json();
  }

  text(): Promise<string> {
    return this.whole().text();
  }

  textStream(): ReadableStream<string> {
    return this.whole().textStream();
  }
}
