/** Prints the keys that the AWS SDK for JavaScript finds by itself. */
import { S3Client } from "@aws-sdk/client-s3";

const client = new S3Client({ region: "eu-central-1" });
const { accessKeyId, secretAccessKey } = await client.config.credentials();
console.log(JSON.stringify({ accessKeyId, secretAccessKey }));
