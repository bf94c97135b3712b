/** Questions to a person; commands pass the implementation. */

export interface Prompt {
  /** Asks for a secret, such as a passphrase, without echo. undefined: nobody can be asked. */
  secret(question: string): Promise<string | undefined>;
  /** Asks for yes or no. undefined: nobody can be asked. */
  confirm(question: string): Promise<boolean | undefined>;
}

export const NOBODY: Prompt = {
  secret: () => Promise.resolve(undefined),
  confirm: () => Promise.resolve(undefined),
};
