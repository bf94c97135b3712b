FROM a AS 1st
